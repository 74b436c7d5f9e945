"""Old names."""

from vaswani_plugin.text.outputs import *  # noqa: F403
