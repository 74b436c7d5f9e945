"""bundle.py: the folder is complete or it is none, and never made of files that don't fit."""

import json
import os
import shutil
from pathlib import Path

import bundle
import numpy as np
import pytest
import torch
from toy_bundle import SETTINGS, write_checkpoint, write_data
from toy_language_model import OURS, STOCK, build, write_lines

from tests.support.commands import vaswani
from tests.support.scripts import run_script
from vaswani_plugin.errors import UserError
from vaswani_plugin.text import bpe, bpe_learning
from vaswani_plugin.text.binary import binarize
from vaswani_plugin.text.coding import bpe_units, to_letters
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import TextSettings, read_settings

NAMES = {"model.pt", "dict.en.txt", "dict.de.txt", "codes", "preprocessing.json"}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with codes, dictionaries and averaged.pt; not to be changed."""
    folder = tmp_path_factory.mktemp("parts of a bundle")
    write_data(folder)
    write_checkpoint(folder, folder / "averaged.pt")
    return folder


@pytest.fixture
def parts(made, tmp_path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(made, tmp_path / "parts"))


def arguments(parts: Path, output: Path, *changes: str, model: str = "averaged.pt") -> list[str]:
    """A whole command line."""
    pairs = [*SETTINGS, "subwords=subword-nmt", f"codes={parts / 'codes'}", "beam=2"]
    keys = {change.partition("=")[0] for change in changes}
    pairs = [pair for pair in pairs if pair.partition("=")[0] not in keys]
    where = ["--model", parts / model, "--data-bin", parts, "--pair", "en-de", "--output", output]
    return [*map(str, where), *pairs, *changes]


@pytest.fixture
def run(monkeypatch):
    """Runs the script in this process; returns the error's message, None where all is well."""

    def run(args: list[str]) -> str | None:
        monkeypatch.setattr("sys.argv", ["bundle.py", *args])
        try:
            bundle.main(bundle.Flags(description=bundle.__doc__))
        except (UserError, OSError) as error:
            return str(error)
        return None

    return run


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, hidden ones too."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_folder_holds_all(parts, tmp_path):
    (parts / "seen").write_text("a 1\n")
    pairs = (f"vocabulary={parts / 'seen'}", "vocabulary_threshold=1")
    output = tmp_path / "a b" / "model"
    done = run_script("data-prep/bundle.py", *arguments(parts, output, *pairs))
    assert done.returncode == 0, done.stderr
    made = content(output)
    assert made.keys() == NAMES | {"vocabulary.en"} and made["vocabulary.en"] == b"a 1\n"
    for name in NAMES - {"preprocessing.json"}:
        source = "averaged.pt" if name == "model.pt" else name
        assert made[name] == (parts / source).read_bytes(), name
    expected = {"lowercase": True, "beam": 2, "source_language": "en", "codes": "codes"}
    expected |= {"vocabulary": "vocabulary.en", "vocabulary_threshold": 1}
    assert expected.items() <= json.loads(made["preprocessing.json"]).items()
    assert read_settings(output).files()


def test_the_checkpoint_may_lie_in_the_folder(parts, run, tmp_path):
    (output := tmp_path / "model").mkdir()
    (parts / "averaged.pt").rename(output / "model.pt")
    before = (output / "model.pt").stat()
    command = arguments(parts, output, model="../model/model.pt")
    for name in ("model.bin", "encoder_model.onnx"):  # of former exports, which would be read
        (output / name).touch()
        assert run(command) is None and content(output).keys() == NAMES
        assert (output / "model.pt").stat().st_ino == before.st_ino
    assert vaswani("card", "--model", output).code == 0
    assert run(arguments(parts, tmp_path / "new", model="../model/model.safetensors")) is None
    command = ("translate", "--cpu", "--model")
    outputs = [vaswani(*command, tmp_path / name, stdin=b"the") for name in ("model", "new")]
    assert run(arguments(parts, output, model="../model/model.pt")) is None
    assert content(output).keys() == NAMES | {"README.md", "config.json"}
    assert outputs[0].out == outputs[1].out != ""


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        (["codes=nowhere"], "nowhere does not exist"),
        (["lowercase=flase"], "lowercase is 'flase': must be true or false"),
        (["lower=true"], "lower: no such field; the fields are source_language, "),
        (["subwords=none", "codes=null"], "subwords=none, but the dictionary's are by their marks"),
        (["subwords=sentencepiece"], "by their marks subwords=subword-nmt: leave subwords out"),
        (["beam"], "beam: must be KEY=VALUE"),
        (["beam=3", "--pair", "en-fr"], "--pair en-fr: "),
        (["beam=3", "--model", "nowhere.pt"], "nowhere.pt does not exist"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_written(parts, run, tmp_path, changes, part):
    assert part in run(arguments(parts, tmp_path / "model", *changes))
    assert not (tmp_path / "model").exists()


def test_the_training_text_completes_the_settings_and_contradicts_wrong_ones(parts, run, tmp_path):
    entries = [(row.split()[0], 1) for row in (parts / "dict.en.txt").read_text().splitlines()]
    split = bpe.make_encoder(str(parts / "codes"))
    lines = [split(line) for line in (parts / "words").read_text().splitlines()]
    binarize(str(write_lines(parts / "train", lines)), parts / "train.en-de.en", entries, 1)
    given = arguments(parts, tmp_path / "model")[:8]
    assert run([*given, f"codes={parts / 'codes'}"]) is None
    found = read_settings(tmp_path / "model")
    assert (found.lowercase, found.normalize_punctuation, found.beam) == (True, False, None)
    assert (found.tokenizer, found.subwords) == ("moses", "subword-nmt")
    merges = ["#version: 0.2", *(f"{a} {b}" for a in "aeiou" for b in "hnrstl")]
    assert "lacks the units" in run([*given, f"codes={write_lines(parts / 'other', merges)}"])
    for change, part in {
        "tokenizer=none": "the training text is tokenized: leave tokenizer out",
        "subwords=none": f"codes {parts / 'codes'}: give both or neither",
    }.items():
        assert part in run(arguments(parts, tmp_path / "other", change))
    assert run(arguments(parts, tmp_path / "other", "tokenizer=none", "--tokenized")) is None
    with (parts / "dict.en.txt").open("a") as stream:
        stream.write("The 1\nthe. 1\n")
    entries += [("The", 1), ("the.", 1)]
    for line, part in {"the the.": "tokenizer=moses, but", "The .": "lowercase=true, but"}.items():
        binarize(str(write_lines(parts / "train", [line])), parts / "train.en-de.en", entries, 1)
        assert part in run(arguments(parts, tmp_path / "other"))


def test_files_that_belong_to_another_model_are_refused(parts, run, tmp_path):
    path = parts / "dict.de.txt"
    first, second, *others = path.read_text().splitlines(keepends=True)
    path.write_text("".join([second, first, *others]))
    message = run(arguments(parts, tmp_path / "model"))
    assert "the target dictionary of" in message and "is not the one that the check" in message
    assert not (tmp_path / "model").exists()
    path.write_text("".join([first, second, *others]))
    state = torch.load(parts / "averaged.pt")
    state["task_state"] = (state.get("task_state") or {}) | {"languages": ["de", "en"]}
    torch.save(state, parts / "averaged.pt")
    assert "it is of de-en: give --pair de-en" in run(arguments(parts, tmp_path / "model"))
    assert run(arguments(parts, tmp_path / "model", "--pair", "de-en")) is None


@pytest.mark.parametrize("failing", [1, 4])
def test_cut_off_it_is_no_bundle_and_can_be_made_again(parts, run, tmp_path, monkeypatch, failing):
    """The disk is full at the failing-th file, over an older bundle."""
    output = tmp_path / "model"
    assert run(arguments(parts, output)) is None
    original, calls = os.replace, []

    def replace(source, target):
        calls.append(target)
        if len(calls) == failing:
            raise OSError(28, "No space left on device", str(target))
        original(source, target)

    write_checkpoint(parts, parts / "averaged.pt", seed=2)
    monkeypatch.setattr(os, "replace", replace)
    assert "No space left on device" in run(arguments(parts, output))
    assert "preprocessing.json" not in content(output)
    assert not [name for name in content(output) if name.startswith(".")]
    monkeypatch.undo()
    assert run(arguments(parts, output)) is None and content(output).keys() == NAMES
    assert content(output)["model.pt"] == (parts / "averaged.pt").read_bytes()


def test_an_odd_line_does_not_say_how_long_sentences_are():
    """`sizes` count the end of sentence."""
    assert bundle.longest_trained(np.array([10] * 300 + [20, 1000])) == 19
    assert bundle.longest_trained(np.array([10] * 4000 + [20] * 3 + [1000] * 4)) == 19
    assert bundle.longest_trained(np.array([10])) == 9


@pytest.fixture
def text_parts(tmp_path) -> Path:
    """A data folder as code_text.py makes it, and language models of random weights."""
    folder = tmp_path / "text parts"
    folder.mkdir()
    lines = [to_letters(line) for line in ["the old bird sat in the garden", "the garden"] * 3]
    bpe_learning.learn([str(write_lines(folder / "text", lines))], 20, 2, str(folder / "codes"))
    write_lines(folder / "dict.txt", [f"{unit} 1" for unit in bpe_units(str(folder / "codes"))])
    (folder / "preprocessing.json").write_text(TextSettings("bpe", "codes").to_json())
    for name, flags in (("ours", OURS), ("stock", STOCK)):
        state, model = build(folder, *flags)
        torch.save({**state, "model": model.state_dict()}, folder / f"{name}.pt")
    return folder


def test_the_settings_of_a_language_models_data_go_with_it(text_parts, run, tmp_path):
    output = tmp_path / "model"
    for model in ("ours.pt", "stock.pt"):
        where = ["--data-bin", str(text_parts), "--output", str(output)]
        assert run(["--model", str(text_parts / model), *where, "beam=3"]) is None
        sources = {"model.pt": model, "dict.txt": "dict.txt", "codes": "codes"}
        assert content(output).keys() == {*sources, "preprocessing.json"}
        for name, source in sources.items():
            assert (output / name).read_bytes() == (text_parts / source).read_bytes()
    assert read_settings(output) == TextSettings("bpe", "codes", beam=3)
    (text_parts / "preprocessing.json").unlink()
    message = run(["--model", str(text_parts / model), *where])
    assert "give --pair, or coding=words" in message
    message = run(["--model", str(text_parts / model), *where, "coding=words"])
    assert "coding=words, but" in message and "is of subword-nmt" in message
    shutil.rmtree(text_parts)
    pipeline = Pipeline.load(output)
    assert pipeline.decode(pipeline.encode(" na\u00efve  <sep>")) == " na\u00efve  <sep>"
