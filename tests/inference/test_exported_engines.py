"""CTranslate2 and onnxruntime find over an export what our own search finds over its bundle."""

import multiprocessing
import random
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from toy_bundle import POSITIONS, SENTENCES, write_toy_bundle

from tests.conftest import fairseq_environment
from tests.support.commands import vaswani
from vaswani_plugin.errors import UserError
from vaswani_plugin.export.ctranslate2_export import export_to_ctranslate2
from vaswani_plugin.export.onnx_export import export_to_onnx
from vaswani_plugin.inference import ctranslate2_engine
from vaswani_plugin.inference.search_engine import use_threads
from vaswani_plugin.inference.translator import Translator
from vaswani_plugin.search.options import SearchOptions

PACKAGES = {"ctranslate2": "ctranslate2", "onnx": "onnxruntime"}


def ending(folder: Path, by: float) -> Path:
    """A bundle of a model that is surer, with `by` added to the logits of the end of sentence."""
    path = write_toy_bundle(folder) / "model.pt"
    state = torch.load(path)
    rows = state["model"]["decoder.projection.weight"].mul_(2)
    # The same vector in all features; what the other words see of it is taken out again.
    shift = torch.full(rows[0].shape, 5.0)
    rows -= torch.outer(rows @ shift, shift) / shift.square().sum()
    rows[2] += by * shift / shift.square().sum()
    state["model"]["decoder.layers.1.feed_forward_norm.norm.bias"] += shift
    torch.save(state, path)
    return path.parent


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    """Of a model that ends its sentences itself, as trained ones do."""
    return ending(tmp_path_factory.mktemp("bundle"), 4.0)


@pytest.fixture(scope="module")
def folders(bundle, tmp_path_factory) -> dict[str, Path]:
    """The exports by their names."""
    folder = tmp_path_factory.mktemp("exported")
    for name, export in (("ctranslate2", export_to_ctranslate2), ("onnx", export_to_onnx)):
        if find_spec(PACKAGES[name]) and find_spec(name):
            export(bundle, folder / name)
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def open_export(folders):
    """``open_export(name)`` is the translator of an export."""

    def load(name: str, **options: object) -> Translator:
        if name not in folders:
            pytest.skip(f"NOT TESTED: no {PACKAGES[name]} here")
        return Translator.from_pretrained(folders[name], threads=1, **options)

    return load


@pytest.fixture(scope="module")
def ours(bundle) -> Translator:
    return Translator.from_pretrained(bundle, threads=1)


def sentences(count: int, seed: int = 1) -> list[str]:
    rng = random.Random(seed)
    words = sorted({word for line in SENTENCES for word in line.split()})
    return [" ".join(rng.choices(words, k=rng.randint(1, 4))) for _ in range(count)]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ctranslate2", {"beam": 4, "align": True}),
        ("ctranslate2", {"beam": 4, "length_penalty": 0.0}),
        ("onnx", {"beam": 4, "nbest": 4, "align": True}),
        ("onnx", {"beam": 3, "no_repeat_ngram": 2, "batch_tokens": 200}),
        ("onnx", {"sampling": True, "nbest": 3, "seed": 7, "top_k": 10}),
    ],
    ids=str,
)
def test_the_search_finds_the_same(ours, open_export, name, options):
    """All but one in ten: CTranslate2 stops beams at other times, see docs/how-to/deploy.md."""
    lines, others = ["", *sentences(60)], 0
    expected, found = (one.translate(lines, **options) for one in (ours, open_export(name)))
    assert len({len(one.tokens) for one in expected}) > 4
    for one, other in zip(expected, found, strict=True):
        assert len(one.hypotheses) == len(other.hypotheses)
        for mine, its in zip(one.hypotheses, other.hypotheses, strict=True):
            others += mine.tokens != its.tokens
            if mine.tokens == its.tokens:
                assert its.score == pytest.approx(mine.score, abs=1e-4)
                assert mine.alignment == its.alignment
                if its.token_scores or name == "onnx":
                    assert its.token_scores == pytest.approx(mine.token_scores, abs=1e-4)
    assert others <= (6 if name == "ctranslate2" else 2)  # a tie


@pytest.mark.parametrize(("by", "beam"), [(-20.0, 2), (20.0, 1), (20.0, 4)])
def test_ctranslate2_ends_where_our_search_does(tmp_path, by, beam):
    """At the model's last position where nothing ends by itself, and never before a word."""
    pytest.importorskip("ctranslate2", reason="NOT TESTED: no CTranslate2 here")
    bundle = ending(tmp_path, by)
    export_to_ctranslate2(bundle, tmp_path / "exported")
    engines = (Translator.from_pretrained(path).engine for path in (bundle, tmp_path / "exported"))
    lines = [line.lower().split() for line in sentences(10)]
    options = SearchOptions(beam=beam, print_alignment="hard")
    for theirs, mine in zip(*(engine.decode(lines, options) for engine in engines), strict=True):
        length = len(theirs[0].token_scores)
        assert length == POSITIONS if by < 0 else length > 1
        assert len(mine[0].token_scores) == length == len(mine[0].alignment) + 1
        if by < 0:  # CTranslate2 goes on to the limit of the longest sentence and cuts beams
            assert mine[0].score == pytest.approx(theirs[0].score, rel=1e-2)
        else:  # forbidden tokens also leave its softmax, so it is scored anew
            assert mine[0].tokens == theirs[0].tokens
            assert mine[0].score == pytest.approx(theirs[0].score, abs=1e-4)


@pytest.mark.parametrize("name", PACKAGES)
def test_scores_and_limits(ours, open_export, name):
    theirs = open_export(name)
    assert theirs.longest_source == ours.longest_source
    assert theirs.longest_target == ours.longest_target
    lines = [line for line in sentences(30, seed=3) if ours.count_tokens(line) < 20]
    pairs = list(zip(lines, [*lines[1:], ""], strict=True))
    for one, other in zip(ours.score(pairs), theirs.score(pairs), strict=True):
        assert other.token_scores == pytest.approx(one.token_scores, abs=1e-4)


def test_what_an_export_cannot_do_is_refused(bundle, open_export, monkeypatch):
    for name, engine in PACKAGES.items():
        with pytest.raises(ValueError, match=f"no model for {engine}: .*export --to {name}`"):
            Translator.from_pretrained(bundle, engine=engine)
        with pytest.raises(ValueError, match="use the bundle it was made of"):
            open_export(name).attention("the cat")
    translator = open_export("ctranslate2")
    for options, part in (
        ({"sampling": True}, "the CTranslate2 engine has no sampling"),
        ({"no_repeat_ngram": 2}, "the CTranslate2 engine has no no_repeat_ngram_size"),
    ):
        with pytest.raises(ValueError, match=part):
            translator.translate("a bird", **options)
    for given in ({"device": "cuda"}, {"dtype": torch.bfloat16}):
        with pytest.raises(ValueError, match="onnxruntime computes on the CPU"):
            open_export("onnx", **given)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ValueError, match="onnxruntime is not installed"):
        open_export("onnx")


def translate_in_child(translator, answers):
    answers.put(translator.translate("a bird", beam=2).text)


def test_a_forked_child_translates(ours, open_export):
    """CTranslate2's threads are not there; it would wait for them, also at its exit."""
    context = multiprocessing.get_context("fork")
    for translator in (ours, open_export("ctranslate2")):
        expected, answers = translator.translate("a bird", beam=2).text, context.SimpleQueue()
        child = context.Process(target=translate_in_child, args=(translator, answers))
        child.start()
        child.join(60)
        code = child.exitcode
        child.kill()
        assert code == 0 and answers.get() == expected


def test_a_forked_child_waits_for_no_thread_of_openmp():
    def work():
        use_threads(2)
        torch.ones(2**20).exp().sum()

    work()
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(30)
    assert child.exitcode == 0
    child.kill()


def test_the_dictionary_of_another_model_is_named(folders, open_export, tmp_path):
    open_export("onnx")
    folder = shutil.copytree(folders["onnx"], tmp_path / "model")
    (folder / "dict.de.txt").write_bytes(b"one 1\n")
    with pytest.raises(ValueError, match="tokens and the target dictionary"):
        Translator.from_pretrained(folder).translate("a")


WITHOUT_TORCH = """
import sys
from vaswani_plugin.cli.__main__ import main
code = main(sys.argv[1:])
sys.exit(code or int("torch" in sys.modules))
"""


def test_ctranslate2_starts_without_torch(bundle, folders, open_export, tmp_path):
    """In a process of its own, since this one has imported torch."""
    open_export("ctranslate2")
    (tmp_path / "in").write_text("a bird\nthe cat\n", encoding="utf-8")
    outputs = []
    for model in (bundle, folders["ctranslate2"]):
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
def test_ctranslate2_is_asked_for_its_gpu(folders, open_export, monkeypatch, has_gpu, device):
    """PyTorch may see another one, or none."""
    open_export("ctranslate2")
    asked = Mock(side_effect=UserError("this is enough"))
    monkeypatch.setattr(ctranslate2_engine, "has_gpu", lambda: has_gpu)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: not has_gpu)
    monkeypatch.setattr(Translator, "from_pretrained", asked)
    assert "this is enough" in vaswani("translate", "--model", folders["ctranslate2"]).error
    assert str(asked.call_args.kwargs["device"]) == device


def test_ctranslate2_takes_the_gpu_of_the_number(folders, open_export, monkeypatch):
    open_export("ctranslate2")
    asked = Mock(side_effect=ValueError("this is enough"))
    monkeypatch.setattr("ctranslate2.Translator", asked)
    with pytest.raises(ValueError, match="this is enough"):
        Translator.from_pretrained(folders["ctranslate2"], device="cuda:1")
    assert (asked.call_args.kwargs["device"], asked.call_args.kwargs["device_index"]) == ("cuda", 1)
