"""Scores, perplexities and costs as functions of text and numbers; no torch, no fairseq."""
