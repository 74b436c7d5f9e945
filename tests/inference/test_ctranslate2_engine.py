"""The CTranslate2 engine finds what fairseq's generator with the paper's score finds."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from model_factory import SIZES, make_model
from search_setup import EOS, FIRST_WORD, PAD, make_sample, make_translation_task
from toy_bundle import write_toy_bundle

from tests.conftest import fairseq_environment
from tests.support.commands import vaswani
from vaswani_plugin.export.ctranslate2_export import (
    export_to_ctranslate2,
    transformer_spec,
    write_spec,
)
from vaswani_plugin.inference import ctranslate2_engine
from vaswani_plugin.inference.bundle import Engine
from vaswani_plugin.inference.ctranslate2_engine import CTranslate2Engine
from vaswani_plugin.inference.models import Loaded
from vaswani_plugin.inference.search_engine import TorchEngine
from vaswani_plugin.inference.texts import Hypothesis
from vaswani_plugin.inference.translator import Translator
from vaswani_plugin.model.build import build
from vaswani_plugin.model.configuration import Configuration
from vaswani_plugin.search.options import SearchOptions

if find_spec("ctranslate2") is None:
    pytest.skip("NOT TESTED: no CTranslate2 here", allow_module_level=True)

WORDS = 12
CHANGES = {"share_embeddings": "none"}


def sources(count: int, seed: int) -> list[list[int]]:
    """Numbers of words, 1 to 8 a sentence."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (count,), generator=generator).tolist()
    return [
        torch.randint(FIRST_WORD, FIRST_WORD + WORDS, (length,), generator=generator).tolist()
        for length in lengths
    ]


def some_lines(count: int, seed: int = 1) -> list[list[str]]:
    return [[f"w{word - FIRST_WORD}" for word in row] for row in sources(count, seed)]


class Decoder:
    """An engine with the options of its search."""

    def __init__(self, engine: Engine, align: bool = False, **search: float) -> None:
        self.engine = engine
        self.options = SearchOptions(print_alignment="hard" if align else None, **search)

    def translate(self, lines: list[list[str]]) -> list[list[Hypothesis]]:
        return self.engine.decode(lines, self.options)


@pytest.fixture(scope="module")
def trained() -> dict[str, torch.Tensor]:
    """Weights of a model that has half learned to reverse a sentence: sure of some words only."""
    task = make_translation_task(WORDS)
    model = make_model(task, seed=3, **CHANGES).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(120):
        rows = sources(32, seed=step)
        targets = [row[::-1] for row in rows]
        net_input = make_sample(rows)["net_input"]
        width = max(map(len, rows)) + 1
        padded = torch.full((2, len(rows), width), PAD)
        for number, target in enumerate(targets):
            padded[0, number, : len(target) + 1] = torch.tensor([EOS, *target])
            padded[1, number, : len(target) + 1] = torch.tensor([*target, EOS])
        logits = model(**net_input, prev_output_tokens=padded[0])[0]
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), padded[1].flatten(), ignore_index=PAD
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert 0.3 < loss < 1.7, "neither ignorant nor sure"
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def make_engines(
    folder: Path,
    weights: dict[str, torch.Tensor],
    end: float = 0.0,
    **search: float,
) -> tuple[Decoder, Decoder]:
    """Our own engine and CTranslate2's, of one model.

    Args:
        folder: where the CTranslate2 model goes.
        weights: of the model.
        end: added to the logit of the end of sentence.
        search: beam, lenpen, align.
    """
    task = make_translation_task(WORDS)
    model = make_model(task, **CHANGES)
    model.load_state_dict(weights)
    with torch.no_grad():
        # The same vector in all features; what the other words see of it is taken out again.
        rows, shift = model.projection_weight, torch.full((SIZES["d_model"],), 5.0)
        rows -= torch.outer(rows @ shift, shift) / shift.square().sum()
        rows[EOS] += end * shift / shift.square().sum()
        model.decoder.layers[-1].feed_forward_norm.norm.bias.add_(shift)
    dictionary = task.source_dictionary
    symbols = dictionary.symbols
    cfg = Configuration(**SIZES, **CHANGES)
    plain = build(cfg, dictionary, dictionary).eval()
    plain.load_state_dict(model.state_dict())
    spec = transformer_spec(model.state_dict(), cfg, symbols, symbols)
    folder.mkdir()
    write_spec(spec, folder)
    stock = TorchEngine(Loaded(plain, cfg, dictionary, dictionary, {}, None), torch.device("cpu"))
    ctranslate2 = CTranslate2Engine(folder, "cpu", "default", 1)
    return Decoder(stock, **search), Decoder(ctranslate2, **search)


@pytest.mark.parametrize("search", [{}, {"lenpen": 0.0}, {"beam": 1}], ids=str)
def test_best_hypotheses_are_equal(tmp_path, trained, search):
    """All but one in 40: the programs stop at other times, see docs/how-to/deploy.md."""
    stock, engine = make_engines(tmp_path / "m", trained, align=True, **search)
    lines = some_lines(40)
    expected, found = stock.translate(lines), engine.translate(lines)
    assert len({len(hypotheses[0].tokens) for hypotheses in expected}) > 4
    others = 0
    for theirs, ours in zip(expected, found, strict=True):
        if ours[0].tokens == theirs[0].tokens:
            assert ours[0].score == pytest.approx(theirs[0].score, abs=1e-4)
            assert ours[0].token_scores == pytest.approx(theirs[0].token_scores, abs=1e-4)
            assert ours[0].alignment == theirs[0].alignment != []
        else:
            others += 1
        assert [h.score for h in ours] == sorted((h.score for h in ours), reverse=True)
        assert 1 <= len(ours) <= search.get("beam", 4)
    assert others <= (search.get("beam") != 1)


def test_without_an_end_the_limit_is_the_end(tmp_path, trained):
    """Source length, end of sentence included, and 50 more tokens; here 64 positions are less."""
    stock, engine = make_engines(tmp_path / "m", trained, end=-20.0, beam=2, align=True)
    lines = ["w1 w2".split(), "w3 w4 w5 w6".split(), ["w1"] * 20]
    expected, found = stock.translate(lines), engine.translate(lines)
    lengths = [len(hypotheses[0].token_scores) for hypotheses in expected]
    assert lengths == [54, 56, 64], "the model ends by itself"
    for theirs, ours, length in zip(expected, found, lengths, strict=True):
        assert len(ours[0].token_scores) == length
        # CTranslate2 goes on to the limit of the longest sentence: a shorter one's beam is cut.
        assert ours[0].score == pytest.approx(theirs[0].score, rel=1e-2)
        assert len(ours[0].alignment) == length - 1


@pytest.mark.parametrize("beam", [1, 4])
def test_an_empty_output_is_none(tmp_path, trained, beam):
    """The model would end at once: our search forbids that."""
    stock, engine = make_engines(tmp_path / "m", trained, end=20.0, beam=beam)
    lines = some_lines(10)
    for theirs, ours in zip(stock.translate(lines), engine.translate(lines), strict=True):
        assert ours[0].tokens == theirs[0].tokens and len(ours[0].tokens) >= 1


def test_scores_of_given_targets(tmp_path, trained):
    stock, engine = make_engines(tmp_path / "m", trained)
    lines, targets = some_lines(10), [row[::-1] for row in some_lines(10)]
    targets[3] = []
    theirs, ours = (one.engine.score(lines, targets) for one in (stock, engine))
    for their, our, target in zip(theirs, ours, targets, strict=True):
        assert len(our) == len(target) + 1
        assert our == pytest.approx(their, abs=1e-4)


def test_what_it_cannot_do_is_refused(tmp_path, trained):
    engine = make_engines(tmp_path / "m", trained)[1].engine
    for options in ({"min_len": 3}, {"sampling": True}, {"no_repeat_ngram_size": 2}):
        with pytest.raises(ValueError, match=f"the CTranslate2 engine has no {min(options)}"):
            engine.decode([["w1"]], SearchOptions(**options))
    with pytest.raises(ValueError, match="beam 17.*16"):
        engine.decode([["w1"]], SearchOptions(beam=17))
    with pytest.raises(ValueError, match="no per-head weights"):
        engine.attention(["w1"], ["w1"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", b'{"bos_token": "<s>"}', "no export for ctranslate2"),
        ("model.bin", b"\6\0\0\0", "CTranslate2 can't load it"),
    ],
)
def test_bad_folders_are_named(tmp_path, trained, name, content, message):
    make_engines(tmp_path / "m", trained)
    (tmp_path / "m" / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        CTranslate2Engine(tmp_path / "m", device="cpu", compute_type="default", threads=1)


WITHOUT_TORCH = """
import sys
from vaswani_plugin.cli.__main__ import main
code = main(sys.argv[1:])
sys.exit(code or int("torch" in sys.modules))
"""


def test_it_starts_without_torch(tmp_path):
    """In a process of its own, since this one has imported torch."""
    bundle = write_toy_bundle(tmp_path)
    export_to_ctranslate2(bundle, tmp_path / "exported")
    (tmp_path / "in").write_text("a bird\nthe cat\n", encoding="utf-8")
    outputs = []
    for model in (bundle, tmp_path / "exported"):
        command = ["translate", "--cpu", "--beam", "1", "--model", str(model), str(tmp_path / "in")]
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_TORCH, *command],
            capture_output=True,
            env=fairseq_environment(),
        )
        outputs.append((done.returncode, done.stdout, done.stderr))
    assert outputs[0][0] == 1 and outputs[0][1]  # PyTorch's engine: the check can fail
    assert outputs[1] == (0, outputs[0][1], b"")


@pytest.mark.parametrize(("has_gpu", "device"), [(True, "cuda"), (False, "cpu")])
def test_ctranslate2_is_asked_for_its_gpu(tmp_path, monkeypatch, has_gpu, device):
    """PyTorch may see another one, or none."""
    export_to_ctranslate2(write_toy_bundle(tmp_path), tmp_path / "ct2")
    asked = Mock(side_effect=ValueError("this is enough"))
    monkeypatch.setattr(ctranslate2_engine, "has_gpu", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: not has_gpu)
    monkeypatch.setattr(Translator, "from_pretrained", asked)
    assert "this is enough" in vaswani("translate", "--model", tmp_path / "ct2").error
    assert str(asked.call_args.kwargs["device"]) == device
