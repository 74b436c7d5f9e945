"""vaswani_plugin: "Attention Is All You Need" as a fairseq `--user-dir`."""

from vaswani_plugin import compat, defaults, resilience

compat.mend()

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
resilience.install()
