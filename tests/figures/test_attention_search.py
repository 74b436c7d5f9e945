"""The search for heads finds one that follows a rule, and none among random or merely near ones.

Axes: N layers, H heads, T queries, S keys.
"""

import numpy as np
import pytest

from vaswani_plugin.errors import UserError
from vaswani_plugin.figures.attention_rules import RULES, Pairs, Rule, read_rule
from vaswani_plugin.figures.attention_search import FACTOR, p_values, search_heads
from vaswani_plugin.inference.attention import Attention, HeadWeights
from vaswani_plugin.text.messages import InputError

LAYERS, HEADS = 2, 3
RULE = Rule((Pairs(frozenset({"his"}), frozenset({"man", "boy"}), "before"),))
FILLERS = "a the red in on with walks sits holds ball street shirt".split()


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def sentences(change, count: int = 60, seed: int = 3) -> list[Attention]:
    """Sentences with one "man" or "boy" and a later "his"; random heads that `change` edits.

    change: takes the scores (N, H, T, T) before the softmax, the words, and the positions of "his"
    and of its noun.
    """
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        words = list(generator.choice(FILLERS, generator.integers(8, 16)))
        noun, pronoun = sorted(generator.choice(len(words), 2, replace=False))
        words[noun], words[pronoun] = generator.choice(["man", "boy"]), "his"
        labels = [*words, "</s>"]
        scores = generator.normal(size=(LAYERS, HEADS, len(labels), len(labels)))
        change(scores, words, pronoun, noun)
        heads = HeadWeights(labels, labels, softmax(scores))
        found.append(Attention(" ".join(words), ".", {"encoder": heads}))
    return found


def nothing(scores, words, query, partner) -> None:
    """Random heads."""


def follow(scores, words, query, partner) -> None:
    scores[1, 2, query, partner] += 4


def previous_word(scores, words, query, partner) -> None:
    places = np.arange(1, scores.shape[-1])
    scores[0, 0, places, places - 1] += 6


def every_noun(scores, words, query, partner) -> None:
    scores[0, 1, :, partner] += 5


def test_the_head_that_follows_is_found():
    found = search_heads(sentences(follow), RULE)
    assert [(h["layer"], h["head"]) for h in found.heads if h["follows"]] == [(2, 3)]
    assert (found.heads[0]["layer"], found.heads[0]["head"]) == (2, 3)
    assert found.heads[0]["first"] > 0.9 and found.heads[0]["p"] == 0.001
    assert found.verdict == "heads that follow the rule: layer 2 head 3"
    example = found.example
    weights = example.attention.kinds["encoder"].weights[1, 2]
    words = example.attention.kinds["encoder"].queries
    assert words[example.query] == "his" and words[example.partner] in ("man", "boy")
    greatest = max(
        a.kinds["encoder"].weights[1, 2, q, p]
        for a in sentences(follow)
        for q, p in RULE.find(a.kinds["encoder"].queries)
    )
    assert weights[example.query, example.partner] == greatest


@pytest.mark.parametrize("change", [nothing, previous_word, every_noun])
def test_random_near_and_popular_are_not_following(change):
    found = search_heads(sentences(change), RULE)
    assert not any(head["follows"] for head in found.heads)
    assert found.table.endswith("\nno head follows the rule")


def test_random_heads_pass_the_p_value_no_more_often_than_the_level():
    wrong = sum(
        any(h["p"] <= 0.05 for h in search_heads(sentences(nothing, seed=s), RULE, 99).heads)
        for s in range(60)
    )
    assert wrong <= 9  # 3 expected at 5%; 10 or more: less than 1 in 1,000


def test_weights_and_baselines_are_means_by_loops():
    corpus = sentences(follow, count=7)
    found = search_heads(corpus, RULE, draws=9)
    for head in found.heads:
        weights, same_distance, same_partner = [], [], []
        layer, number = head["layer"] - 1, head["head"] - 1
        for attention in corpus:
            words = attention.kinds["encoder"].queries[:-1]
            own = attention.kinds["encoder"].weights[layer, number]
            query = words.index("his")
            partner = next(i for i in range(query, -1, -1) if words[i] in ("man", "boy"))
            controls = [
                other.kinds["encoder"].weights[layer, number, t, t + partner - query]
                for other in corpus
                for t, word in enumerate(other.kinds["encoder"].queries[:-1])
                if word != "his"
                and 0 <= t + partner - query < len(other.kinds["encoder"].queries) - 1
            ]
            if not controls:
                continue
            weights.append(own[query, partner])
            same_distance.append(np.mean(controls))
            others = [t for t in range(len(words)) if t not in (query, partner)]
            same_partner.append(np.mean([own[t, partner] for t in others]))
        assert found.pairs == len(weights)
        for name, values in (
            ("weight", weights), ("distance", same_distance), ("partner", same_partner)
        ):  # fmt: skip
            assert head[name] == pytest.approx(np.mean(values), rel=1e-9), name
        baseline = max(head["distance"], head["partner"])
        assert head["follows"] == (head["weight"] >= FACTOR * baseline and head["p"] <= 0.01)
    gains = [h["weight"] - max(h["distance"], h["partner"]) for h in found.heads]
    assert gains == sorted(gains, reverse=True)


def test_p_values_count_the_draws_above():
    given = np.array([[1.0, 0.0]] * 9)  # above and below nearly every draw
    pools = [np.array([[0.0, 1.0]] * 9)] * 9
    p = p_values(given, pools, 199, np.random.default_rng(0))
    assert p.tolist() == [1 / 200, 1.0]


def test_a_pair_is_the_nearest_on_its_side_at_the_least_distance():
    pairs = Pairs(frozenset({"his"}), frozenset({"man", "boy"}), "before")
    words = "A man and a boy, with \u201chis\u201d man".split()  # as word pieces join them
    assert Rule((pairs,)).find(words) == [(6, 4)]
    words = "A man and a boy with his man".split()
    assert Rule((pairs,)).find(words) == [(6, 4)]
    assert Rule((pairs,), 3).find(words) == [(6, 1)]
    assert Rule((pairs,), 6).find(words) == []
    assert Rule((Pairs(pairs.queries, pairs.partners, "after"),)).find(words) == [(6, 7)]
    assert Rule((Pairs(pairs.queries, pairs.partners),)).find(words) == [(6, 7)]


@pytest.mark.parametrize(
    ("rule", "text", "pair"),
    [
        (
            "long-distance",
            "making the registration or voting process more difficult .",
            ("making", "difficult"),
        ),
        ("long-distance", "They take all of the old boxes away .", ("take", "away")),
        (
            "pronoun",
            "The Law will never be perfect , but its application should be just .",
            ("its", "Law"),
        ),
        ("pronoun", "A woman and a man read her book .", ("her", "woman")),
    ],
)
def test_the_rules_of_figures_3_and_4(rule, text, pair):
    words = text.split()
    assert [(words[q], words[p]) for q, p in RULES[rule].find(words)] == [pair]


def test_a_file_of_pairs(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("# German\n\nEr er\tMann junge\tbefore\nweder\tnoch\n", encoding="utf-8")
    found = read_rule(path)
    assert [(sorted(p.queries), sorted(p.partners), p.side) for p in found] == [
        (["er"], ["junge", "mann"], "before"),
        (["weder"], ["noch"], "either"),
    ]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("his man\n", ":1: must be queries, a tab"),
        ("# x\nhis\tman\tleft\n", ":2: side left: must be before, after or either"),
        ("\n", "holds no pairs"),
    ],
)
def test_a_bad_file_of_pairs(tmp_path, text, part):
    path = tmp_path / "pairs.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=part):
        read_rule(path)


def test_a_corpus_without_pairs_is_an_error():
    rule = Rule((Pairs(frozenset({"nowhere"}), frozenset({"man"})),))
    with pytest.raises(UserError, match="no sentence holds a pair"):
        search_heads(sentences(nothing, count=3), rule)
