"""`vaswani attention`: weights, merged words and pictures are the model's own."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from toy_bundle import write_toy_bundle

from tests.conftest import ancestors
from tests.support.commands import Ended, vaswani
from vaswani_plugin.figures import attention_report as figures
from vaswani_plugin.inference.attention import HeadWeights
from vaswani_plugin.inference.translator import Translator

PNG = b"\x89PNG\r\n\x1a\n"
SOURCE, TARGET = "The tired farmer slept.", "The cat & a bird!"
KINDS = ["encoder", "decoder", "cross"]


def attend(folder: Path, *flags: object) -> Ended:
    return vaswani("attention", "--model", folder, *flags)


def as_attention(found: dict) -> HeadWeights:
    return HeadWeights(found["queries"], found["keys"], np.array(found["weights"]))


def test_it_prints_what_python_gives(toy_bundle):
    """With a target, by words, and without one, where the model translates."""
    translator = Translator.from_pretrained(toy_bundle)
    by_words = translator.attention(SOURCE, TARGET).merged("subword-nmt")
    for flags, expected in (
        (("--target", TARGET), translator.attention(SOURCE, TARGET)),
        (("--target", TARGET, "--words"), by_words),
        ((), translator.attention(SOURCE, translator.translate(SOURCE).text)),
    ):
        printed = json.loads(attend(toy_bundle, "--source", SOURCE, *flags, "--format", "json").out)
        found = {kind: as_attention(one) for kind, one in printed["attention"].items()}
        assert printed["target"] == expected.target
        assert list(found) == list(expected.kinds) == KINDS
        for kind, attention in expected.kinds.items():
            assert (found[kind].queries, found[kind].keys) == (attention.queries, attention.keys)
            np.testing.assert_allclose(found[kind].weights, attention.weights, atol=1e-6)


def test_unknown_tokens_are_counted(toy_bundle):
    done = attend(toy_bundle, "--source", "\u0e01", "--target", "a", "--format", "json")
    assert done.err == "vaswani attention: --source: 1 tokens are unknown to the model\n"


@pytest.mark.parametrize(
    ("subwords", "tokens", "groups", "words"),
    [
        ("subword-nmt", "a@@ b c@@ </s>", [[0, 1], [2], [3]], "ab c </s>"),
        ("sentencepiece", "▁a b ▁ c ▁ </s>", [[0, 1], [2, 3], [4], [5]], "ab c ▁ </s>"),
        ("none", "a@@ ▁b </s>", [[0], [1], [2]], "a@@ ▁b </s>"),
    ],
)
def test_words_have_the_sum_over_keys_and_the_mean_over_queries(subwords, tokens, groups, words):
    tokens = tokens.split()
    weights = np.random.default_rng(1).dirichlet(np.ones(len(tokens)), (2, 3, len(tokens)))
    merged = HeadWeights(tokens, tokens, weights).merged(subwords)
    assert merged.queries == merged.keys == words.split()
    for t, row in enumerate(groups):
        for s, column in enumerate(groups):
            expected = weights[:, :, row][:, :, :, column].sum(-1).mean(-1)
            np.testing.assert_allclose(merged.weights[:, :, t, s], expected, atol=1e-6)


def line_opacities(svg: Path) -> list[float]:
    """Of every line of a figure, in no order."""
    groups = re.findall(r'<g id="LineCollection.*?</g>', svg.read_text(encoding="utf-8"), re.S)
    styles = [s for group in groups for s in re.findall(r'style="([^"]*stroke:[^"]*)"', group)]
    found = (re.search(r"stroke-opacity: ([\d.]+)", style) for style in styles)
    return sorted(float(match[1]) if match else 1.0 for match in found)


@pytest.mark.parametrize("word", [None, "CA\u0301T"])
def test_a_lines_opacity_is_its_weight(toy_bundle, tmp_path, word):
    output = tmp_path / "lines.svg"
    target = TARGET.replace("cat", "c\u00e1t")
    args = ["--source", SOURCE, "--target", target, "--words", "--layer", 1, "--heads", 2, 4]
    only = ["--lines"] if word is None else ["--word", word]
    done = attend(toy_bundle, *args, *only, "--output", output, "--format", "json")
    cross = as_attention(json.loads(done.out)["attention"]["cross"])
    rows = [i for i, query in enumerate(cross.queries) if word is None or query == "c\u00e1t"]
    weights = cross.weights[0][[1, 3]][:, rows].ravel()
    expected = np.sort(weights[weights >= figures.FAINTEST])
    assert len(expected) > 3
    np.testing.assert_allclose(line_opacities(output), expected, atol=1e-5)


@pytest.mark.parametrize("draw", [figures.draw_heads, figures.draw_lines])
def test_a_dollar_starts_no_formula(draw, tmp_path):
    labels = ["$\\nosuchcommand$", "$x", "^_{"]
    draw(np.full((1, 3, 3), 1 / 3), [1], labels, labels, "title", tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").stat().st_size > 1000


@ancestors
def test_a_recurrent_model_shows_the_attention_it_has(tmp_path):
    """Of the source; pictures, the page and numbers by the suffix of their files."""
    flags = ("--d-model", "16", "--share-embeddings", "none", "--arch")
    bundle = write_toy_bundle(tmp_path, model=(*flags, "vaswani_attention_lstm_tiny"))
    given = ["attention", "--model", bundle, "--source", SOURCE, "--target", TARGET]
    outputs = [tmp_path / name for name in ("a.png", "a.svg", "a.html", "a.json")]
    done = vaswani(*given, "--words", "--output", *outputs)
    assert done.out.splitlines() == [str(output) for output in outputs], done.err
    assert outputs[0].read_bytes().startswith(PNG)
    assert outputs[1].read_text(encoding="utf-8").count("<image") == 1  # a heat map a head
    assert "<html" in outputs[2].read_text(encoding="utf-8")
    found = json.loads(outputs[3].read_text(encoding="utf-8"))["attention"]
    assert list(found) == ["cross"]
    weights = np.array(found["cross"]["weights"])
    assert weights.shape[:2] == (1, 1)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    done = vaswani(*given, "--kind", "encoder")
    assert "--kind encoder: this model has only cross" in done.error
    (tmp_path / "without").mkdir()
    bundle = write_toy_bundle(tmp_path / "without", model=(*flags, "vaswani_seq2seq_lstm_tiny"))
    done = vaswani("attention", "--model", bundle, "--source", "A cat.")
    assert "this model has no attention to show" in done.error


def brute_force(attentions: list[HeadWeights], layer: int, head: int) -> dict[str, float]:
    """The statistics of a head, from their definitions."""
    sums = dict.fromkeys(("distance", "entropy", "previous", "same", "next"), 0.0)
    queries = 0
    for attention in attentions:
        for i, row in enumerate(attention.weights[layer, head]):
            queries += 1
            for j, weight in enumerate(map(float, row)):
                sums["distance"] += weight * abs(i - j)
                sums["entropy"] -= weight * np.log2(weight) if weight else 0
                for name, place in (("previous", i - 1), ("same", i), ("next", i + 1)):
                    sums[name] += weight * (j == place)
    return {name: value / queries for name, value in sums.items()}


def test_statistics_over_a_corpus(toy_bundle, tmp_path):
    pairs = [("A quiet bird.", SOURCE), ("", ""), ("\u200b", "a"), (SOURCE, TARGET)]
    files = [tmp_path / "text.en", tmp_path / "text.de"]
    for path, lines in zip(files, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    found = json.loads(attend(toy_bundle, "--corpus", *files, "--words", "--format", "json").out)
    assert found["sentences"] == 2
    printed = []
    for source, target in pairs:
        if source.isprintable() and source:
            single = ("--source", source, "--target", target, "--words", "--format", "json")
            printed.append(json.loads(attend(toy_bundle, *single).out)["attention"])
    for kind in KINDS:
        attentions = [as_attention(weights[kind]) for weights in printed]
        assert found["attention"][kind]["queries"] == sum(len(a.queries) for a in attentions)
        for layer in (0, 1):
            for head in range(4):
                for name, value in brute_force(attentions, layer, head).items():
                    here = found["attention"][kind][name][layer][head]
                    assert here == pytest.approx(value, abs=1e-4), (kind, name)
