"""Fixtures that several test files share."""

import pytest
import torch


@pytest.fixture
def float64(monkeypatch: pytest.MonkeyPatch):
    """Everything in float64: tensors made here, and the places where the decoder widens half precision to float32."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)
