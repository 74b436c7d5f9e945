"""Every engine of `vaswani translate` gives what ours gives, line for line."""

import json
import pickle
from importlib.util import find_spec
from pathlib import Path

import pytest
from toy_bundle import SENTENCES, write_toy_bundle

from tests.support.commands import Ended, vaswani
from vaswani_plugin import LanguageModel, Parser, Summarizer, Translator

ENGINES = {"own": None, "ctranslate2": "ctranslate2", "onnx": "onnxruntime"}
LINES = [*SENTENCES, "", " \t ", "a bird", " ".join(SENTENCES), "ESC \x1b @@ &amp; </s> \u2028"]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request, tmp_path_factory) -> dict[str, Path | str]:
    """The bundle, and what `vaswani export` makes of it."""
    name, package = request.param, ENGINES[request.param]
    if package and find_spec(package) is None:
        pytest.skip(f"NOT CHECKED: no {package} here")
    folder = tmp_path_factory.mktemp(name)
    bundle = exported = write_toy_bundle(folder)
    if package:
        exported = folder / "exported"
        done = vaswani("export", "--to", name, "--model", bundle, "--output", exported)
        assert done.code == 0, done.err
    return {"own": bundle, "this": exported}


def translate(model: Path, *flags: object, lines: list[str] = LINES) -> Ended:
    text = "".join(f"{line}\n" for line in lines).encode()
    return vaswani("translate", "--cpu", "--model", model, "--long", "split", *flags, stdin=text)


def test_lines_are_those_of_our_engine(engine):
    """A line for a line, also for empty ones and for a text longer than the model takes."""
    ours = translate(engine["own"], "--beam", 1, "--engine", "torch")
    theirs = translate(engine["this"], "--beam", 1, "--buffer", 2, "--threads", 2)
    assert (theirs.code, theirs.err) == (0, "")
    assert theirs.out.count("\n") == len(LINES) and theirs.out == ours.out
    assert len(set(theirs.out.split("\n"))) > 5, "all alike: no test"
    assert theirs.out.split("\n")[len(SENTENCES)] == ""


def test_the_n_best_are_sorted(engine):
    lines = [SENTENCES[0], *SENTENCES[2:]]  # of the second CTranslate2 ends only one in time
    done = translate(engine["this"], "--beam", 3, "--nbest", 2, "--format", "json", lines=lines)
    assert done.out.count("\n") == len(lines), done.err
    for line in done.out.splitlines():
        scores = [each["score"] for each in json.loads(line)["hypotheses"]]
        assert len(scores) == 2 and scores == sorted(scores, reverse=True)


def test_a_line_that_is_too_long_is_refused_by_all(engine):
    lines = f"a bird\n{' '.join(SENTENCES)}\n".encode()
    given = ("--cpu", "--model", engine["this"], "--one-sentence-a-line")
    done = vaswani("translate", *given, stdin=lines)
    assert done.out.count("\n") == 1 and "standard input:2: a sentence of" in done.error


def test_alignments_do_not_depend_on_the_batch(engine):
    translator = Translator.from_pretrained(engine["this"], device="cpu")
    texts = [*SENTENCES, *(" ".join(text.split()[:2]) for text in SENTENCES)]

    def alignments(texts):
        found = translator.translate(texts, beam=4, align=True, long="split")
        return [one.alignment for one in found]

    together = alignments(texts)
    assert together == [found for text in texts for found in alignments([text])]
    assert len(set(map(tuple, together))) > 2


@pytest.mark.parametrize(
    ("kind", "name", "method"),
    [
        (LanguageModel, "lm", LanguageModel.score),
        (Summarizer, "summarizer", Summarizer.summarize),
        (Parser, "parser", Parser.parse),
    ],
)
def test_a_pickle_answers_alike(world, kind, name, method):
    loaded = kind.from_pretrained(world[name])
    assert method(pickle.loads(pickle.dumps(loaded)), ["ba be"]) == method(loaded, ["ba be"])
