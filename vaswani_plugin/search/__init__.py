"""Decoding (section 6.1): beam search and its parts, one formula a file."""
