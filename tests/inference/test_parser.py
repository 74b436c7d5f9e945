"""`Parser`: beside fairseq-generate with our task; batches, streams, n-best."""

import math
from pathlib import Path

import pytest
import torch
from toy_parser import FLAGS, TESTED, TREES, write_parser_bundle

from tests.conftest import ancestors
from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.parsing import ParsedSentence, Parser
from vaswani_plugin.text.linearization import linearize
from vaswani_plugin.text.trees import parse_tree

SENTENCES = [" ".join(linearize(parse_tree(tree))[0]) for tree in TREES[:TESTED]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Of a decoder that also reads the next word."""
    return write_parser_bundle(tmp_path_factory.mktemp("parser"), model=(*FLAGS, "--next-word"))


@pytest.fixture(scope="module")
def parser(folder) -> Parser:
    return Parser.from_pretrained(folder)


def require_same(found: list[ParsedSentence], expected: list[ParsedSentence]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.words == other.words and one.bracketing == other.bracketing
        for mine, theirs in zip(one.parses, other.parses, strict=True):
            assert mine.symbols == theirs.symbols
            assert mine.score == pytest.approx(theirs.score, rel=1e-5)
            assert mine.token_scores == pytest.approx(theirs.token_scores, abs=1e-3)


def test_it_finds_what_fairseq_generate_finds(folder, parser, run_fairseq):
    """Of each sentence the two best: symbols, scores and the log-probability of each symbol."""
    data, model = folder.parent / "bin", folder.parent / "averaged.pt"
    run = run_fairseq(
        *("generate", data, "--task", "vaswani_parsing", "--path", model, "--cpu"),
        *("--beam", 3, "--nbest", 2, "--max-tokens", 300),
        *("--source-lang", "words", "--target-lang", "symbols"),
    )
    assert run.returncode == 0, run.stderr
    expected: dict[str, list[list[str]]] = {}
    for line in run.stdout.splitlines():
        if line[:2] in ("H-", "P-"):
            name, *fields = line.split("\t")
            expected.setdefault(name, []).append(fields)
    assert len(expected) == 2 * len(SENTENCES)
    found = parser.parse(SENTENCES, beam=3, nbest=2)
    assert len({one.bracketing for one in found}) > len(found) / 2, "all alike: no test"
    for number, (sentence, one) in enumerate(zip(SENTENCES, found, strict=True)):
        assert list(one.words) == sentence.split() and len(one.parses) == 2
        for parse, (score, symbols), (by_symbol,) in zip(
            one.parses, expected[f"H-{number}"], expected[f"P-{number}"], strict=True
        ):
            assert list(parse.symbols) == symbols.split()
            assert parse.score / math.log(2) == pytest.approx(float(score), rel=1e-5)
            base_2 = [log_p / math.log(2) for log_p in parse.token_scores]
            assert base_2 == pytest.approx(list(map(float, by_symbol.split())), abs=1e-3)
            assert parse.tree.leaves() == sentence.split()


def test_alone_as_in_a_batch_and_a_stream(parser):
    sentences = [*SENTENCES[:4], "", "  \t ", "doctor"]
    found = parser.parse(sentences)
    assert found[4] == found[5] == ParsedSentence((), ())
    assert found[4].tree is None and found[4].bracketing == "" and found[4].score is None
    assert parser.parse(f"{sentences[0]}\n").bracketing == found[0].bracketing
    require_same([parser.parse(sentence) for sentence in sentences], found)
    require_same(parser.parse(sentences, batch_tokens=1), found)
    require_same(list(parser.stream(iter(sentences), buffer=5)), found)


@pytest.mark.parametrize("sign", [*"\u200b\u00ad\0\ufeff\u2060\v\f", " \u242320; "])
def test_invisible_characters_are_no_words(parser, sign):
    found = parser.parse([SENTENCES[0], f"{sign} x a{sign}b {sign}", SENTENCES[0], sign])
    assert found[0] == found[2] and found[0].bracketing and not found[3].words
    assert found[1].tree.leaves() == list(found[1].words) and sign not in "".join(found[1].words)


def test_without_the_constraint(parser):
    found = parser.parse(SENTENCES[:8], unconstrained=True)
    assert any(one.tree is None and one.bracketing == "" and one.parses for one in found)
    free = [one.parses[0].symbols for one in found]
    assert free != [one.parses[0].symbols for one in parser.parse(SENTENCES[:8])]


def test_samples_depend_on_the_seed(parser):
    options = {"sampling": True, "temperature": 3.0, "batch_tokens": 60}
    first, again, other = (parser.parse(SENTENCES, seed=n, **options) for n in (1, 1, 2))
    require_same(first, again)
    assert [one.bracketing for one in first] != [one.bracketing for one in other]


def test_the_bundles_beam_and_the_papers_penalty(parser):
    """The bundle says 3."""
    some = SENTENCES[:4]
    require_same(parser.parse(some), parser.parse(some, beam=3, length_penalty=0.3))
    for one in parser.parse(some, length_penalty=0.9):
        (parse,) = one.parses
        expected = sum(parse.token_scores) / ((5 + len(parse.symbols) + 1) / 6) ** 0.9
        assert parse.score == pytest.approx(expected, rel=1e-5)


def test_types_and_devices_by_their_names(folder):
    rough = Parser.from_pretrained(folder, dtype="bfloat16")
    assert {weight.dtype for weight in rough.engine.model.parameters()} == {torch.bfloat16}
    for wrong in ("bfloat", "int8", torch.int8):
        with pytest.raises(UserError, match="'b?(float|int8)', which is no type of weights"):
            Parser.from_pretrained(folder, dtype=wrong)
    for absent in ("gpu", "meta", "cuda:99"):
        with pytest.raises(UserError, match=f"device is '{absent}', which can't compute here: giv"):
            Parser.from_pretrained(folder, device=absent)


@ancestors
def test_a_recurrent_model_parses_too(tmp_path):
    arch = ("--arch", "vaswani_attention_lstm", "--d-model", "16", "--layers", "1")
    flags = ("--task", "vaswani_parsing", *arch, "--share-embeddings", "none")
    found = Parser.from_pretrained(write_parser_bundle(tmp_path, model=flags)).parse(SENTENCES[:3])
    assert [one.tree.leaves() for one in found] == [one.split() for one in SENTENCES[:3]]
