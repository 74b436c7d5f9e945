"""What scripts and plugin share: corpora, tokenization, subwords, and the logs of trainings.

One package for the scripts beside it, which find it by their own folder, and for the plugin, with
which it is installed. It knows neither PyTorch nor fairseq, so that a script starts at once.
"""
