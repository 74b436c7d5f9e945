"""The version: pyproject.toml reads it here, `vaswani --version` prints it, bundles carry it."""

__version__ = "1.0.0"
