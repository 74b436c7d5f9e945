"""fairseq tasks: what a training reads, how it is batched, and which search translates it."""
