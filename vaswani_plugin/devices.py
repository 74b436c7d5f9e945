"""Differences between devices that the rest of the code must know."""

import torch


def runs_on_host(device: torch.device) -> bool:
    """Return whether the device is a CPU, so that the host itself computes.

    On a CPU, reading a value costs nothing, the processor caches memory, and many small operations
    cost less than a few that compute more than needed. On any other device the host runs ahead of
    the computation, and reading a value makes the host wait.
    """
    return device.type == "cpu"
