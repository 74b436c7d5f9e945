"""Numbers in, modules out: what builds a model, with fairseq and without it. Torch only."""
