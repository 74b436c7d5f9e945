"""Old names."""

from vaswani_plugin.text.lines import read_text  # noqa: F401
