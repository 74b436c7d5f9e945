"""fairseq models: configuration in, modules out."""

from vaswani_plugin import register

register()
