"""Processors and other devices: what Linux tells of the processor; elsewhere nothing is known."""

import platform
from functools import cache
from pathlib import Path
from typing import Any

CPUINFO = Path("/proc/cpuinfo")


def runs_on_host(device: Any) -> bool:
    """Return whether a `torch.device` is a CPU, so that the host itself computes.

    On a CPU, reading a value costs nothing, the processor caches memory, and many small operations
    cost less than a few that compute more than needed. On any other device the host runs ahead of
    the computation, and reading a value makes the host wait.
    """
    return bool(device.type == "cpu")


@cache
def _first_core() -> dict[str, str]:
    """The lines of the first core in /proc/cpuinfo, by their names."""
    if not CPUINFO.exists():
        return {}
    core = CPUINFO.read_text(encoding="utf-8").split("\n\n")[0]
    pairs = (line.partition(":") for line in core.split("\n"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def vendor() -> str:
    """Return the processor's vendor, such as "AuthenticAMD"; "" where it is unknown."""
    return _first_core().get("vendor_id", "")


def instructions() -> frozenset[str]:
    """Return the processor's instruction sets as Linux names them, such as "avx2"."""
    return frozenset(_first_core().get("flags", "").split())


def has_bfloat16() -> bool:
    """Return whether the processor multiplies bfloat16 faster than float32."""
    return not instructions().isdisjoint(("avx512_bf16", "amx_bf16"))


def description() -> str:
    """Return name and widest vector instructions, such as "AMD EPYC avx2"; else the architecture.

    Every record of a measurement has this line.
    """
    wide = next((each for each in ("avx512f", "avx2") if each in instructions()), "")
    return f"{_first_core().get('model name', '')} {wide}".strip() or platform.machine()
