"""`vaswani complete`: prompts in, texts out, in every coding; what it says of what it can't do."""

import io
import json
import sys
from pathlib import Path

import pytest
import torch
from toy_language_model import (
    OUR_LSTM,
    WORDS,
    build,
    write_bundle,
    write_data,
    write_lines,
)

from vaswani_plugin.cli.__main__ import main
from vaswani_plugin.inference.language_model import LanguageModel
from vaswani_plugin.text import bpe_learning
from vaswani_plugin.text.coding import bpe_units, encode_characters, to_letters
from vaswani_plugin.text.settings import TextSettings

SAMPLED = {"sampling": True, "temperature": 4.0, "nbest": 3}
LINES = ["the old naïve café was closed.", "“quoted” words – and the sea", "the cat saw the dog"]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that codes words."""
    folder = tmp_path_factory.mktemp("words") / "model"
    return write_bundle(folder, TextSettings(coding="words"), WORDS)


@pytest.fixture(scope="module")
def characters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that codes characters."""
    folder = tmp_path_factory.mktemp("characters") / "model"
    units = dict.fromkeys(" ".join(map(encode_characters, LINES)).split())
    return write_bundle(folder, TextSettings(coding="characters"), list(units))


@pytest.fixture(scope="module")
def subwords(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle that codes byte pairs."""
    folder = tmp_path_factory.mktemp("subwords")
    write_lines(folder / "text", list(map(to_letters, LINES)))
    bpe_learning.learn([str(folder / "text")], 30, 2, str(folder / "codes"))
    settings = TextSettings(coding="bpe", codes="codes")
    bundle = write_bundle(folder / "model", settings, bpe_units(str(folder / "codes")))
    return (folder / "codes").rename(bundle / "codes").parent


@pytest.fixture
def completed(capsys, monkeypatch):
    """``completed(MODEL, FLAGS…, stdin=b"…")`` runs the command: its code, output and errors."""

    def run(model: Path, *flags: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main(["complete", "--model", str(model), "--cpu", *flags])
        return code, *capsys.readouterr()

    return run


def as_objects(output: str) -> list[dict]:
    return [json.loads(line) for line in output.split("\n")[:-1]]


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        ("", {}),
        ("--sampling --temperature 4 --samples 3 --seed 1", SAMPLED | {"seed": 1}),
        ("--beam 3 --samples 2 --lenpen 1", {"beam": 3, "nbest": 2, "length_penalty": 1.0}),
    ],
)
def test_the_json_is_what_python_gives(words, completed, flags, options):
    prompts = ["ba be", "", "gu  zzz ko"]
    flags = ("--format", "json", "--max-new-tokens", "9", *flags.split())
    code, output, errors = completed(words, *flags, *prompts)
    assert code == 0 and errors.startswith("vaswani complete: prompt 3: 1 of 3 tokens")
    expected = LanguageModel.from_pretrained(words).complete(prompts, max_new_tokens=9, **options)
    for number, (found, other) in enumerate(zip(as_objects(output), expected, strict=True), 1):
        assert (found["line"], found["prompt"]) == (number, prompts[number - 1])
        assert found["prompt_tokens"] == list(other.prompt_tokens) == found["prompt"].split()
        for one, its in zip(found["completions"], other.continuations, strict=True):
            assert (one["tokens"], one["text"]) == (list(its.tokens), its.text)
            assert one["log_probabilities"] == pytest.approx(its.token_scores, abs=1e-4)
            assert (one["score"], one["ended"]) == (pytest.approx(its.score, abs=1e-4), its.ended)
        assert found["prompt"] + found["completions"][0]["text"] == other.text


def test_text_is_the_prompt_and_what_follows(characters, subwords, words, completed):
    """A prompt stands as it was given, whatever the model knows of it."""
    flags = ("--max-new-tokens", "8", "--sampling", "--seed", "1")
    for model, prompt in [
        (characters, "the c"),
        (characters, "the "),
        (characters, "жthe\u00a0"),
        (subwords, "the naïve “ж”"),
        (subwords, "the "),
        (words, "ba  be "),
    ]:
        code, text, _ = completed(model, *flags, prompt)
        assert code == 0
        (found,) = as_objects(completed(model, *flags, "--format", "json", prompt)[1])
        (completion,) = found["completions"]
        assert text == prompt + completion["text"] + "\n"
        assert completion["tokens"]
        if model == characters:
            shown = "".join(" " if unit == "▁" else unit for unit in completion["tokens"])
            assert completion["text"] == shown
        elif prompt.endswith(" "):
            assert not completion["text"].startswith(" ")
        else:
            assert completion["text"].startswith(" ")


def test_a_prompt_of_several_lines(words, characters, completed):
    flags = ("--format", "json", "--max-new-tokens", "3", "--stop", "never")
    for model, prompt, read in [
        (words, "ba be\nko ", ["ba", "be", "</s>", "ko"]),
        (words, "ba\n\n", ["ba", "</s>", "</s>"]),
        (characters, "the \nc", ["t", "h", "e", "▁", "</s>", "c"]),
    ]:
        (found,) = as_objects(completed(model, *flags, prompt)[1])
        assert found["prompt_tokens"] == read
        (completion,) = found["completions"]
        assert len(completion["tokens"]) == 3
        glue = "" if model == characters else " "
        new = glue.join(completion["tokens"]).replace("▁", " ").replace("</s>", "\n")
        expected = new if prompt[-1] in " \nc" else glue + new
        assert completion["text"].split("\n") == [part.strip(glue) for part in expected.split("\n")]


def test_a_checkpoint_with_its_data_folder(completed, tmp_path):
    """Without a preprocessing.json prompts are tokens."""
    data = write_data(tmp_path)
    state, model = build(data, *OUR_LSTM)
    torch.save({**state, "model": model.state_dict()}, tmp_path / "checkpoint.pt")
    flags = ("--data-bin", str(data), "--max-new-tokens", "3", "--stop", "never")
    code, output, _ = completed(tmp_path / "checkpoint.pt", *flags, "ba be")
    assert code == 0 and len(output.split()) == 5
    code, _, errors = completed(tmp_path / "checkpoint.pt", "ba")
    assert code == 1 and "--data-bin" in errors
