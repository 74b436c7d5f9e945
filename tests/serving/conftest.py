"""The service's tests need the extra: `pip install '.[serve]'`."""

from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi", reason="the service needs pip install '.[serve]'")
pytest.importorskip("uvicorn", reason="the service needs pip install '.[serve]'")

from services import Running, fake_service, running  # noqa: E402


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    """A fake translator behind the service, with its limits as they are by default."""
    with running(fake_service()) as started:
        yield started
