"""fairseq criterions: thin classes over vaswani_plugin/modules/loss.py."""

from vaswani_plugin import register

register()
