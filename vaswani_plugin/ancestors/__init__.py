"""Models before and beside the Transformer: modules, sizes, builders, and all their adapters."""
