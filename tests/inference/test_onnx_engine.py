"""The onnxruntime engine finds what our own engine finds, with every option of the search."""

import json
import shutil
import sys
from importlib.util import find_spec

import pytest
import torch

from vaswani_plugin.cli import __main__ as cli
from vaswani_plugin.export.onnx_export import export_to_onnx
from vaswani_plugin.inference.translator import Translator

if find_spec("onnx") is None or find_spec("onnxruntime") is None:
    pytest.skip("NOT TESTED: no onnx or onnxruntime here", allow_module_level=True)


@pytest.fixture(scope="module")
def folders(trained, tmp_path_factory):
    """A trained bundle and its export."""
    exported = tmp_path_factory.mktemp("onnx") / "model"
    export_to_onnx(trained.folder, exported)
    return trained.folder, exported


@pytest.fixture(scope="module")
def engines(folders):
    """Our own engine and onnxruntime's, as translators."""
    return [Translator.from_pretrained(folder, threads=1) for folder in folders]


def same(ours, theirs):
    """Whether all hypotheses are the same, with their scores."""
    assert len(ours.hypotheses) == len(theirs.hypotheses)
    equal = True
    for one, other in zip(ours.hypotheses, theirs.hypotheses, strict=True):
        equal &= one.tokens == other.tokens and one.alignment == other.alignment
        if one.tokens == other.tokens:
            assert other.score == pytest.approx(one.score, abs=1e-4)
            assert other.token_scores == pytest.approx(one.token_scores, abs=1e-4)
    return equal


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 4, "nbest": 4, "align": True},
        {"beam": 5, "length_penalty": 0.0, "batch_tokens": 60},
        {"beam": 3, "min_length": 5, "no_repeat_ngram": 2},
        {"beam": 2, "prefix": "of the second line", "batch_tokens": 200},
        {"sampling": True, "nbest": 3, "seed": 7, "top_k": 10},
    ],
    ids=str,
)
def test_the_search_finds_the_same(trained, engines, options):
    lines = ["", *trained.more_sentences(60)]
    if "prefix" in options:
        options = options | {"prefix": lines[1].split()[0]}
    ours, theirs = (engine.translate(lines, **options) for engine in engines)
    assert len({len(found.tokens) for found in ours}) > 4
    results = [same(one, other) for one, other in zip(ours, theirs, strict=True)]
    assert sum(results) >= len(results) - 1, "but for a tie"


def test_a_beam_of_4_over_1000_sentences(trained, engines):
    lines = trained.more_sentences(1000, seed=2)
    ours, theirs = (engine.translate(lines, beam=4) for engine in engines)
    results = [one.tokens == other.tokens for one, other in zip(ours, theirs, strict=True)]
    assert sum(results) >= 990 and len({one.tokens for one in ours}) > 500


def test_scores_and_limits(trained, engines):
    ours, theirs = engines
    assert theirs.longest_source == ours.longest_source
    assert theirs.longest_target == ours.longest_target
    lines = trained.more_sentences(30, seed=3)
    pairs = list(zip(lines, [*lines[1:], ""], strict=True))
    expected, found = ours.score(pairs), theirs.score(pairs)
    for one, other in zip(expected, found, strict=True):
        assert other.token_scores == pytest.approx(one.token_scores, abs=1e-4)


@pytest.mark.parametrize("flags", [[], ["--engine", "onnxruntime"]], ids=str)
def test_translate_takes_an_exported_bundle_for_what_it_is(trained, folders, tmp_path, flags):
    lines = ["", *trained.more_sentences(9)]
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    outputs = []
    for folder, own in zip(folders, ([], flags), strict=True):
        files = ["--model", folder, "--output", tmp_path / "out", tmp_path / "in"]
        common = ["translate", "--cpu", "--long", "split"]
        assert cli.main([*common, *own, *map(str, files)]) == 0
        outputs.append((tmp_path / "out").read_text(encoding="utf-8"))
    assert outputs[0] == outputs[1] and len(set(outputs[0].split("\n"))) > 3


def test_attention_needs_the_bundle(trained, engines):
    with pytest.raises(ValueError, match="use the bundle it was made of"):
        engines[1].attention(trained.more_sentences(1)[0])


class TestBadFolders:
    """One line that names the file and the remedy."""

    @pytest.fixture
    def folder(self, folders, tmp_path):
        return shutil.copytree(folders[1], tmp_path / "onnx")

    def refused(self, folder, capsys, message, *flags):
        command = ["translate", "--engine", "onnxruntime", "--cpu", "--model", folder, *flags]
        assert cli.main(list(map(str, command))) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and message in error, error

    def test_a_bundle_of_another_engine(self, folders, capsys):
        self.refused(folders[0], capsys, "holds no ONNX model: make one of a bundle")

    def test_a_folder_that_is_no_model(self, tmp_path, capsys):
        self.refused(tmp_path, capsys, f"{tmp_path} is not a bundle")

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("decoder_with_past_model.onnx", "holds no decoder_with_past_model.onnx: make one"),
            ("config.json", "holds no ONNX model: make one"),
        ],
    )
    def test_a_file_that_is_missing(self, folder, capsys, name, message):
        (folder / name).unlink()
        self.refused(folder, capsys, message)

    def test_a_graph_that_is_truncated(self, folder, capsys):
        path = folder / "decoder_model.onnx"
        path.write_bytes(path.read_bytes()[:9000])
        self.refused(folder, capsys, f"{path}: onnxruntime can't load it")

    def test_a_graph_of_something_else(self, folder, capsys):
        path = folder / "decoder_model.onnx"
        path.write_bytes((folder / "encoder_model.onnx").read_bytes())
        self.refused(folder, capsys, f"{path} has no cross_attentions.1: make one")

    @pytest.mark.parametrize("own", [None, 3, {"max_source_positions": "9"}, {}], ids=str)
    def test_another_programs_configuration(self, folder, capsys, own):
        (folder / "config.json").write_text(json.dumps({"vaswani": own}), encoding="utf-8")
        self.refused(folder, capsys, "not written by `vaswani export --to onnx`")

    def test_a_dictionary_of_another_model(self, folder, tmp_path, capsys):
        with (folder / "dict.tgt.txt").open("a", encoding="utf-8") as stream:
            stream.write("more 1\n")
        (tmp_path / "in").write_text("a\n", encoding="utf-8")
        message = "tokens and the target dictionary"
        self.refused(folder, capsys, message, tmp_path / "in")

    def test_a_gpu_and_other_precisions(self, folder):
        for given in ({"device": "cuda"}, {"dtype": torch.bfloat16}):
            with pytest.raises(ValueError, match="onnxruntime computes on the CPU"):
                Translator.from_pretrained(folder, **given)

    def test_the_package_is_missing(self, folder, capsys, monkeypatch):
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        self.refused(folder, capsys, "onnxruntime is not installed")
