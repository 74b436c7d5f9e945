"""A search's steps only launch kernels; it looks at the device once in several of them."""

from collections import Counter

import meta
import numpy as np
import pytest
import search_setup as setup
import torch
from language_models import text_model
from model_factory import plain_transformer
from torch.utils._python_dispatch import TorchDispatchMode

from vaswani_plugin.fairseq_plugin.generator import FairseqModel
from vaswani_plugin.search import search
from vaswani_plugin.search.models import Sources, TransformerModel

BEAM, STEPS = 4, 8  # the first slots last for five
WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "is_nonzero"}


def tokens(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.long, device=meta.META)


def without_kernels(model):
    model = TransformerModel(plain_transformer(model))
    model._packing = None
    return model


CASES = [("vaswani_debug", 3, FairseqModel), ("vaswani_debug", 3, without_kernels)]
for kind in sorted(meta.KINDS):
    if meta.ROWS[kind][0].model == "vaswani_transformer":
        CASES += [(kind, 0, FairseqModel), (kind, 0, without_kernels)]
    if meta.ROWS[kind][0].model == "vaswani_lm":
        CASES += [(kind, 0, text_model)]


@pytest.mark.parametrize(("name", "window", "make"), CASES)
def test_a_decoder_advances(name, window, make):
    family, row = meta.ROWS[name]
    task = meta.make_meta_task(family)
    sizes = {"attention_window": window, **meta.shallow(family)}
    model = meta.make_meta_model(family, row, task, **sizes).eval()
    sources = meta.make_meta_sample(model)["net_input"]["src_tokens"]
    translates = make is not text_model
    lengths = np.full(len(sources), sources.size(1) - translates)
    with meta.launches_only(), torch.no_grad():
        start, _ = make(model).prepare()
        beams = start(Sources(sources, lengths, {}), BEAM, translates)
        beams.step(tokens(3, 1), None)  # as `BeamSearch` tells the models
        for _ in range(STEPS):
            beams.step(tokens(3, BEAM), tokens(3, BEAM))
            assert beams.logits(slice(1, 3)).shape == (2, BEAM, len(task.target_dictionary))


class _Waits(TorchDispatchMode):
    """Counts calls that make the host wait for a device, by the step in which they come."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.by_step = -1, Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.name().partition("::")[2].partition(".")[0]
        indices = args[1] if name.startswith("index") and isinstance(args[1], list) else []
        by_mask = any(x.dtype == torch.bool for x in indices if torch.is_tensor(x))
        if name in WAITS or by_mask:
            self.by_step[self.step] += 1
        return function(*args, **(kwargs or {}))


SETTINGS = {
    "beam": {"beam": 4},
    "one": {"beam": 1},
    "groups": {"beam": 4, "diverse_beam_groups": 2},
}
SETTINGS |= {"fairseq's": {"beam": 4, "length_penalty": "fairseq"}}
SETTINGS |= {"no repeats": {"beam": 4, "no_repeat_ngram_size": 2}}
SAMPLED = [{"beam": 4, "sampling": True, f"sampling_top{x}": n} for x, n in (("k", 5), ("p", 0.9))]


def translate(settings: dict, prefix: bool = False) -> list:
    settings = dict(settings)
    task = setup.make_translation_task(31, length_penalty=settings.pop("length_penalty", "paper"))
    generator = setup.make_generator(task, [setup.make_peaked_model(31)], **settings, min_len=3)
    sample = setup.make_sample([[5, 6, 7], [8, 9, 10, 11, 12, 13, 14], [20], [9, 9, 9, 4]])
    prefixes = torch.tensor([[5, 6], [1, 1], [7, 1], [1, 1]]) if prefix else None
    return [setup.outputs_of(found) for found in generator.generate([], sample, prefixes)]


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_without_looking_it_finds_the_same(settings, prefix, request):
    expected = translate(settings, prefix)
    request.getfixturevalue("as_on_a_device")
    found = translate(settings, prefix)
    assert [[y for y, _ in row] for row in found] == [[y for y, _ in row] for row in expected]
    for row, other in zip(found, expected, strict=True):
        assert [s for _, s in row] == pytest.approx([s for _, s in other], rel=1e-5)


@pytest.mark.parametrize("settings", [*SETTINGS.values(), *SAMPLED], ids=str)
def test_it_looks_once_in_several_steps(settings, as_on_a_device, monkeypatch):
    waits = _Waits()
    step = search.Ensemble.step

    def counted(self, *arguments):
        waits.step += 1
        return step(self, *arguments)

    monkeypatch.setattr(search.Ensemble, "step", counted)
    with waits:
        translate(settings, prefix=True)
    looked = {step for step in waits.by_step if step >= 0}
    last = max(looked)
    assert last > 2 * search.STEPS_BETWEEN_CHECKS
    assert looked - {last} == set(range(0, last, search.STEPS_BETWEEN_CHECKS))
