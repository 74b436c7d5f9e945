"""What the modules' tests share."""

import pytest
import torch
from reference_weights import default_dtype


@pytest.fixture
def float64():
    """Double precision, and the same random numbers for each test."""
    with default_dtype(torch.float64):
        torch.manual_seed(5)
        yield
