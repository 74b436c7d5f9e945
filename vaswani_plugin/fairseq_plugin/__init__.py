"""What fairseq sees: models, tasks, criterion, optimizer, schedules, trainer, and patches.

The only package that imports fairseq. Importing it registers everything, and patches fairseq's
defects first.
"""

from vaswani_plugin.fairseq_plugin import defaults, patches

patches.apply()

from vaswani_plugin.fairseq_plugin import adam, criterion, halving, schedule, training
from vaswani_plugin.fairseq_plugin.models import (
    attention_lstm,
    language_model,
    lstm_language_model,
    one_layer_language_model,
    seq2seq_lstm,
    transformer,
)
from vaswani_plugin.fairseq_plugin.tasks import language_modeling, parsing, translation

defaults.install()
training.install()
