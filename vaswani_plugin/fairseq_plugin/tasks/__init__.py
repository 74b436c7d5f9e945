"""fairseq tasks: the only place that joins model and search."""
