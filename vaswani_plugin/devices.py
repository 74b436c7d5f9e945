"""How devices differ, where the code must know: beside `kernels/`, nothing else asks."""

import torch


def runs_on_host(device: torch.device) -> bool:
    """Whether the host itself computes what is on this device: a CPU.

    Then a look at a value costs nothing, memory is cached by the processor, and many small
    operations cost less than few that compute too much. On any other device the host runs ahead
    of the computation, and a look at a value makes it wait.
    """
    return device.type == "cpu"
