"""The paper's equations in pure PyTorch, without fairseq: one concept a file."""
