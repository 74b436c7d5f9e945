"""Old names."""

from vaswani_plugin.text.dictionary import languages_of  # noqa: F401
from vaswani_plugin.text.outputs import *  # noqa: F403
