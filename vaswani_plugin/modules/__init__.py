"""The paper's equations in pure PyTorch: one concept a file, no fairseq inside."""
