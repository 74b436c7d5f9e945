"""Old names."""

from vaswani_plugin.text.lines import *  # noqa: F403
from vaswani_plugin.text.outputs import line_progress, open_output  # noqa: F401
