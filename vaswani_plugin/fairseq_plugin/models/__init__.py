"""fairseq models: configuration in, modules out."""
