"""Decoding (section 6.1): length penalty and beam search."""
