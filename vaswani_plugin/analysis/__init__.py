"""What is measured and drawn: figures, curves and rates. It knows torch, not fairseq."""
