"""Weights and checkpoints in and out of other programs, and averages of checkpoints."""
