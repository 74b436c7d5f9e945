"""What /proc/cpuinfo says, and what holds where there is none."""

import platform

import pytest
import torch

from vaswani_plugin import processor

CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: A processor: the second colon is its own
flags\t\t: fpu avx2 avx512_vnni

processor\t: 1
vendor_id\t: Another
flags\t\t: fpu
"""


@pytest.fixture(autouse=True)
def read_anew():
    processor._first_core.cache_clear()
    yield
    processor._first_core.cache_clear()


def test_the_first_core_is_read(monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    assert processor.name() == "A processor: the second colon is its own"
    assert processor.vendor() == "GenuineIntel"
    assert processor.instructions() == {"fpu", "avx2", "avx512_vnni"}
    assert processor.description() == "A processor: the second colon is its own avx2"
    assert processor.has_vnni()


def test_without_the_file_nothing_is_known(monkeypatch, tmp_path):
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "none")
    assert processor.name() == processor.vendor() == "" and processor.instructions() == frozenset()
    assert processor.description() == platform.machine() != ""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert not processor.has_vnni()


def test_it_agrees_with_pytorch_on_this_processor():
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        pytest.skip("NOT TESTED: no AVX2 here")
    assert "avx2" in processor.instructions()
