"""A trained model for the tests of this folder."""

import pytest
from trained_bundle import TrainedBundle


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> TrainedBundle:
    """A bundle whose model has learned its toy language."""
    return TrainedBundle(tmp_path_factory.mktemp("trained"))
