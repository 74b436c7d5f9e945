"""Builds models from their sizes, with fairseq or without it. Needs torch only."""
