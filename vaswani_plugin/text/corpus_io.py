"""Old names."""

from vaswani_plugin.text.lines import *  # noqa: F403
