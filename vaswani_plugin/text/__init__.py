"""Text before and after a model: corpora, subwords, trees, logs; no PyTorch, no fairseq."""
