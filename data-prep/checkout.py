"""Makes vaswani_plugin importable where it is not installed; a script imports this file first.

Python puts the folder of a script on its path, not the folder above. An installed plugin is used
as it is.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

if find_spec("vaswani_plugin") is None:
    sys.path.append(str(Path(__file__).resolve().parents[1]))
