"""What the tests of the room share."""

import pytest
import torch


@pytest.fixture
def double():
    """Float64 throughout, so that equal means 1e-12."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
