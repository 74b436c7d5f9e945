"""Old names."""

from vaswani_plugin.text.pipeline import WORD_BORDERS, cut  # noqa: F401
