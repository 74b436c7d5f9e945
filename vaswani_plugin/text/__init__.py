"""Text before and after a model: corpora, tokenization, subwords, trees, the logs of trainings.

The scripts of data-prep/, the recipes and the rest of the plugin share this package. It imports
neither PyTorch nor fairseq, so that a script starts at once.
"""
