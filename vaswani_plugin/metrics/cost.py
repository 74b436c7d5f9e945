"""Training cost in FLOPs by the paper's method (section 6.1, Table 2): time x devices x rate."""

import math
from dataclasses import dataclass

HOUR = 3600.0


@dataclass(frozen=True)
class Device:
    """A processor and its rate in TFLOP/s.

    kind: "sustained", the paper's estimate of the rate of training in single precision; or "peak",
    the maker's figure for dense bfloat16. No training reaches the peak, so FLOPs computed from it
    are an upper limit.
    """

    name: str
    teraflops: float
    kind: str
    source: str


_PAPER = "the paper, footnote 5"

DEVICES = {
    device.name: device
    for device in (
        Device("K80", 2.8, "sustained", _PAPER),
        Device("K40", 3.7, "sustained", _PAPER),
        Device("M40", 6.0, "sustained", _PAPER),
        Device("P100", 9.5, "sustained", _PAPER),
        Device("V100", 125.0, "peak", "NVIDIA V100 SXM2 data sheet (float16: it has no bfloat16)"),
        Device("A100", 312.0, "peak", "NVIDIA A100 data sheet"),
        Device("L4", 121.0, "peak", "NVIDIA L4 data sheet (242 with sparsity, halved)"),
        Device("L40S", 362.0, "peak", "NVIDIA L40S data sheet"),
        Device("H100", 989.0, "peak", "NVIDIA H100 SXM data sheet (1,979 with sparsity, halved)"),
        Device("H200", 989.0, "peak", "NVIDIA H200 SXM data sheet (1,979 with sparsity, halved)"),
        Device("B200", 2250.0, "peak", "NVIDIA B200 data sheet (4,500 with sparsity, halved)"),
        Device("MI300X", 1307.0, "peak", "AMD Instinct MI300X data sheet"),
    )
}


@dataclass(frozen=True)
class TimedTraining:
    """Duration and devices of a training, and the FLOPs that the paper prints for it."""

    model: str
    hours: float
    devices: int
    device: Device
    printed_flops: float

    @property
    def flops(self) -> float:
        """Time x devices x rate."""
        return flops_by_time(self.hours * HOUR, self.devices, self.device.teraflops)


PAPER_TRAININGS = (
    TimedTraining("Transformer (base)", 12.0, 8, DEVICES["P100"], 3.3e18),
    TimedTraining("Transformer (big)", 3.5 * 24, 8, DEVICES["P100"], 2.3e19),
)


def flops_by_time(seconds: float, devices: int, teraflops: float) -> float:
    """Training FLOPs by the paper's method (section 6.1): time x devices x rate.

    Args:
        seconds: training time.
        devices: number of devices.
        teraflops: rate of one device, in 1e12 floating-point operations a second.

    Raises:
        ValueError: a number that is not positive, or infinite.
    """
    for name, value in (("time", seconds), ("devices", devices), ("TFLOP/s", teraflops)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} is {value}; it must be a number above 0")
    return seconds * devices * teraflops * 1e12
