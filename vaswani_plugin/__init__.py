"""vaswani_plugin: "Attention Is All You Need" as a fairseq `--user-dir`."""

from vaswani_plugin import defaults, fairseq_patches
from vaswani_plugin.compat import memory

fairseq_patches.apply()
memory.keep_freed_memory()
memory.keep_few_kernels()
memory.return_large_blocks_of_wide_models()
memory.return_holes_between_updates()

from vaswani_plugin import training
from vaswani_plugin.criterions import label_smoothing
from vaswani_plugin.models import (
    attention_lstm,
    language_model,
    one_layer_language_model,
    seq2seq_lstm,
    transformer,
)
from vaswani_plugin.optim import adam, lr_scheduler
from vaswani_plugin.tasks import language_modeling, parsing, translation

defaults.install()
training.install()
