"""What fairseq sees: models, tasks, criterion, optimizer, schedules, trainer, and patches.

No other package imports fairseq, but `export/stock_fairseq.py`. Importing this one registers
everything, and patches fairseq's defects first.
"""

from importlib import import_module

from vaswani_plugin.fairseq_plugin import defaults, patches

patches.apply()

from vaswani_plugin.fairseq_plugin import criterion, optimizer, trainer
from vaswani_plugin.fairseq_plugin.tasks import language_modeling, translation
from vaswani_plugin.model.families import families

for family in families():
    import_module(family.registration)
defaults.install()
trainer.install()
