"""fairseq criterions: thin classes over vaswani_plugin/modules/loss.py."""
