"""What the tests of models and criterion share."""

from types import SimpleNamespace

import pytest
from model_factory import make_task


@pytest.fixture(scope="session")
def task() -> SimpleNamespace:
    """Dictionaries of a task of translation."""
    return make_task()
