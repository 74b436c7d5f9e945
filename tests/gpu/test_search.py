"""Translating on a GPU gives what the CPU gives."""

import warnings
from itertools import pairwise

import pytest
import torch
from search_setup import make_generator, make_peaked_model, make_sample, make_translation_task

from tests.devices.test_search_waits import SETTINGS
from vaswani_plugin.search import search

SOURCES = [[5, 6, 7], [*range(8, 15)], [20], [9, 9, 9, 4], [30, 29, *range(4, 11)]]


def translate(device: torch.device, dtype: torch.dtype = torch.float32, **settings) -> list:
    task = make_translation_task(31, length_penalty=settings.pop("length_penalty", "paper"))
    generator = make_generator(task, [make_peaked_model(31).to(device, dtype)], **settings)
    sample = make_sample(SOURCES)
    inputs = {name: x.to(device) for name, x in sample["net_input"].items()}
    return generator.generate([], {"net_input": inputs})


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_same_translations(device, settings):
    expected, found = (translate(where, **settings) for where in (torch.device("cpu"), device))
    for ours, cpus in zip(found, expected, strict=True):
        assert [h["tokens"].tolist() for h in ours] == [h["tokens"].tolist() for h in cpus]
        for one, other in zip(ours, cpus, strict=True):
            assert one["score"].item() == pytest.approx(other["score"].item(), rel=1e-4)


@pytest.mark.parametrize(
    ("dtype", "sampling"), [(torch.bfloat16, False), (torch.float16, False), (torch.float32, True)]
)
def test_half_precision_and_samples_are_numbers(device, dtype, sampling):
    for hypotheses in translate(device, dtype, beam=4, sampling=sampling):
        assert len(hypotheses) == 4
        assert all(h["positional_scores"].isfinite().all() for h in hypotheses)


def test_it_waits_once_in_several_steps(real_device, monkeypatch):
    """By CUDA's own report, from the first step to the last."""
    translate(real_device, beam=4)  # cuBLAS and the allocator begin
    waited, plain = [], search.Ensemble.step  # number of waits before each step

    def counted(self, tokens, parents):
        waited.append(len(reports))
        return plain(self, tokens, parents)

    monkeypatch.setattr(search.Ensemble, "step", counted)
    with warnings.catch_warnings(record=True) as reports:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            translate(real_device, beam=4)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    in_step = [after - before for before, after in pairwise(waited)]
    every = search.STEPS_BETWEEN_CHECKS
    assert len(in_step) > 2 * every
    assert all(waits == 0 or step % every == 0 for step, waits in enumerate(in_step))
