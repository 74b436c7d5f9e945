"""Text in and out of a model: corpora, tokenization, subwords.

One package for the scripts beside it, which find it by their own folder, and for the plugin, with
which it is installed. It knows neither PyTorch nor fairseq, so that a script starts at once.
"""
