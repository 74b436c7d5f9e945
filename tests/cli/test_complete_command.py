"""`vaswani complete`: prompts in, texts out, in every coding; what it says of what it can't do."""

import json
from pathlib import Path

import pytest
from toy_language_model import WORDS, write_bundle, write_lines

from tests.support.commands import Ended, vaswani
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


def completed(model: Path, *flags: object) -> Ended:
    return vaswani("complete", "--model", model, "--cpu", *flags)


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
def test_the_json_is_what_python_gives(words, flags, options):
    prompts = ["ba be", "", "gu  zzz ko"]
    flags = ("--format", "json", "--max-new-tokens", "9", *flags.split())
    done = completed(words, *flags, *prompts)
    assert done.code == 0 and done.err.startswith("vaswani complete: prompt 3: 1 of 3 tokens")
    expected = LanguageModel.from_pretrained(words).complete(prompts, max_new_tokens=9, **options)
    for number, (found, other) in enumerate(zip(as_objects(done.out), expected, strict=True), 1):
        assert (found["line"], found["prompt"]) == (number, prompts[number - 1])
        assert found["prompt_tokens"] == list(other.prompt_tokens) == found["prompt"].split()
        for one, its in zip(found["completions"], other.continuations, strict=True):
            assert (one["tokens"], one["text"]) == (list(its.tokens), its.text)
            assert one["token_scores"] == pytest.approx(its.token_scores, abs=1e-4)
            assert (one["score"], one["ended"]) == (pytest.approx(its.score, abs=1e-4), its.ended)
        assert found["prompt"] + found["completions"][0]["text"] == other.text


def test_text_is_the_prompt_and_what_follows(characters, subwords, words):
    """A prompt stands as it was given, whatever the model knows of it."""
    flags = ("--max-new-tokens", "8", "--sampling", "--seed", "1")
    cases = [(characters, text) for text in ("the c", "the ", "жthe\u00a0")]
    cases += [(subwords, "the naïve “ж”"), (subwords, "the "), (words, "ba  be ")]
    for model, prompt in cases:
        text = completed(model, *flags, prompt).out
        (found,) = as_objects(completed(model, *flags, "--format", "json", prompt).out)
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


def test_a_prompt_of_several_lines(words, characters):
    flags = ("--format", "json", "--max-new-tokens", "3", "--stop", "never")
    for model, prompt, read in [
        (words, "ba be\nko ", ["ba", "be", "</s>", "ko"]),
        (words, "ba\n\n", ["ba", "</s>", "</s>"]),
        (characters, "the \nc", ["t", "h", "e", "▁", "</s>", "c"]),
    ]:
        (found,) = as_objects(completed(model, *flags, prompt).out)
        assert found["prompt_tokens"] == read
        (completion,) = found["completions"]
        assert len(completion["tokens"]) == 3
        written = [token for token in completion["tokens"] if token != "▁"]
        assert "".join(written).replace("</s>", "\n") == completion["text"].replace(" ", "")
