"""Decoding (section 6.1): beam search and its parts, one concept a file."""
