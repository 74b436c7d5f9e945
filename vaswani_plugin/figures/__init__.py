"""Measurements and plots: figures, curves and rates. It imports torch, but not fairseq."""
