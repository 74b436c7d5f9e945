"""split_groups.py: no sentence in two splits, the same splits for the same text."""

import random

import networkx
import pytest
from split_groups import LARGEST_GROUP, groups_of, loose_key, split

from vaswani_plugin.errors import UserError

SIZES = {"test": 30, "valid": 20}
Pair = tuple[str, str]


def corpus(seed: int, size: int = 400) -> list[Pair]:
    """Pairs of few sentences on both sides, so that many are shared; some differ in case only."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(size):
        left, right = f"Say {rng.randrange(size)}!", f"Sag {rng.randrange(size)}."
        pairs.append((left.upper() if rng.random() < 0.1 else left, right))
    return pairs


def components(pairs: list[Pair]) -> set[frozenset[Pair]]:
    """The groups by networkx's connected components."""
    graph = networkx.Graph()
    graph.add_edges_from((("en", left.lower()), ("de", right)) for left, right in pairs)
    parts = list(networkx.connected_components(graph))
    return {frozenset(p for p in pairs if ("en", p[0].lower()) in part) for part in parts}


def test_what_makes_sentences_the_same():
    assert loose_key("Ça va, là?") == loose_key("ça va — LÀ!") != loose_key("Ça vas")
    assert loose_key("\uff21\uff22") == loose_key("ab")  # full-width letters
    assert loose_key("नमस्ते।") == loose_key("नमस्ते")
    assert loose_key("?!") != loose_key("...")


@pytest.mark.parametrize("seed", range(2))
def test_groups_are_the_connected_components(seed):
    pairs = corpus(seed)
    found = {frozenset(pairs[n] for n in members) for _, members in groups_of(pairs)}
    assert found == components(pairs)


@pytest.mark.parametrize("seed", range(2))
def test_no_sentence_is_in_two_splits(seed):
    pairs = list(dict.fromkeys(corpus(seed)))
    splits = split(pairs, SIZES)
    assert 30 <= len(splits["test"]) < 30 + LARGEST_GROUP
    assert 20 <= len(splits["valid"]) < 20 + LARGEST_GROUP
    assert sorted(sum(splits.values(), [])) == sorted(pairs)
    for side in (0, 1):
        seen = [{pair[side].lower() for pair in chosen} for chosen in splits.values()]
        assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])
    again = split(random.Random(1).sample(pairs, len(pairs)), SIZES)  # in another order
    assert {n: set(again[n]) for n in again} == {n: set(splits[n]) for n in splits}


def test_large_groups_are_never_held_out():
    pairs = [(f"Say {n}!", "Ja.") for n in range(LARGEST_GROUP + 1)]
    pairs += [(f"See {n}!", f"Sieh {n}.") for n in range(10)]
    splits = split(pairs, {"test": 9})
    assert len(splits["test"]) == 9 and not {"Ja."} & {right for _, right in splits["test"]}
    with pytest.raises(UserError, match="--test 11: only 10 pairs share no sentence"):
        split(pairs, {"test": 11})
    with pytest.raises(UserError, match="nothing is left to train on"):
        split(pairs[-10:], {"test": 10})
