"""What the service's tests share; those that need a running one are skipped without the extra."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from services import Running


@pytest.fixture(scope="module")
def service() -> "Iterator[Running]":
    """A fake translator behind the service, with its limits as they are by default."""
    from services import fake_service, running  # skips where the extra is missing

    with running(fake_service()) as started:
        yield started
