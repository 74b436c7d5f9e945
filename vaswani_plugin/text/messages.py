"""Old names of vaswani_plugin.errors."""

from vaswani_plugin.errors import *  # noqa: F403
from vaswani_plugin.errors import UserError as InputError  # noqa: F401
