"""What /proc/cpuinfo says, and what holds where there is none."""

import platform

import pytest

from vaswani_plugin import processor

CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: A processor: the second colon is its own
flags\t\t: fpu avx2 avx512_vnni

processor\t: 1
vendor_id\t: Another
flags\t\t: fpu
"""


@pytest.mark.parametrize("is_there", [True, False])
def test_the_first_core_is_read(monkeypatch, tmp_path, is_there):
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / ("cpuinfo" if is_there else "none"))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(processor, "_first_core", processor._first_core.__wrapped__)
    if is_there:
        assert processor.name() == "A processor: the second colon is its own"
        assert processor.description() == f"{processor.name()} avx2"
        assert processor.vendor() == "GenuineIntel" and processor.has_vnni()
    else:
        assert processor.name() == processor.vendor() == ""
        assert processor.description() == "x86_64" and not processor.has_vnni()
