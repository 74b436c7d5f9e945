"""Makes vaswani_plugin importable if it is not installed; a script imports this file first.

Python adds the folder of a script to its path, but not the parent folder. An installed plugin is
used as it is.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

if find_spec("vaswani_plugin") is None:
    sys.path.append(str(Path(__file__).resolve().parents[1]))
