"""What fairseq sees: models, tasks, criterion, optimizer, schedules, trainer, and patches.

No other package imports fairseq, but `export/stock_fairseq.py`. Importing this one registers
everything, and patches fairseq's defects first.
"""

from vaswani_plugin.fairseq_plugin import defaults, patches

patches.apply()

from vaswani_plugin.fairseq_plugin import criterion, optimizer, trainer
from vaswani_plugin.fairseq_plugin.models import language_models, recurrent, transformer
from vaswani_plugin.fairseq_plugin.tasks import language_modeling, translation

defaults.install()
trainer.install()
