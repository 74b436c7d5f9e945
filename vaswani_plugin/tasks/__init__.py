"""fairseq tasks: the only place that joins model and search."""

from vaswani_plugin import register

register()
