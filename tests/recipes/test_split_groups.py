"""split_groups.py: no sentence in two splits, the same splits for the same text."""

import random
import sys
from pathlib import Path

import networkx
import pytest

from tests.support.scripts import ROOT, assert_one_line_error, run_script

sys.path.insert(0, str(ROOT / "recipes" / "lib"))

import split_groups  # noqa: E402

SCRIPT = "recipes/lib/split_groups.py"


def corpus(seed: int, size: int = 400) -> list[tuple[str, str]]:
    """Pairs of few sentences on both sides, so that many are shared; some differ in case only."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(size):
        left, right = f"Say {rng.randrange(size)}!", f"Sag {rng.randrange(size)}."
        pairs.append((left.upper() if rng.random() < 0.1 else left, right))
    return pairs


def components(pairs: list[tuple[str, str]]) -> set[frozenset[tuple[str, str]]]:
    """The groups by networkx's connected components."""
    graph = networkx.Graph()
    graph.add_edges_from((("en", left.lower()), ("de", right)) for left, right in pairs)
    parts = list(networkx.connected_components(graph))
    return {frozenset(p for p in pairs if ("en", p[0].lower()) in part) for part in parts}


@pytest.mark.parametrize("seed", range(5))
def test_groups_are_the_connected_components(seed):
    pairs = corpus(seed)
    groups = split_groups.group(pairs)
    assert {frozenset(group) for group in groups} == components(pairs)
    assert sum(map(len, groups)) == len(set(pairs))


@pytest.mark.parametrize("seed", range(5))
def test_no_sentence_is_in_two_splits(seed):
    pairs = corpus(seed)
    splits = split_groups.split(pairs, 0, 20, 30)
    assert 30 <= len(splits["test"]) < 36 and 20 <= len(splits["valid"]) < 26
    assert sorted(sum(splits.values(), [])) == sorted(set(pairs))
    for side in (0, 1):
        seen = [{pair[side].lower() for pair in chosen} for chosen in splits.values()]
        assert not (seen[0] & seen[1] or seen[0] & seen[2] or seen[1] & seen[2])


def test_the_order_of_the_lines_does_not_move_a_pair():
    pairs = corpus(7)
    splits = split_groups.split(pairs, 0, 20, 30)
    shuffled = random.Random(1).sample(pairs, len(pairs))
    again = split_groups.split(shuffled, 0, 20, 30)
    assert {name: set(chosen) for name, chosen in splits.items()} == {
        name: set(chosen) for name, chosen in again.items()
    }


def write(folder: Path, pairs: list[tuple[str, str]]) -> list[Path]:
    """Writes both sides; returns their names."""
    paths = [folder / "all.en", folder / "all.de"]
    for side, path in enumerate(paths):
        path.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return paths


def test_files(tmp_path):
    pairs = corpus(3)
    flags = ("--train", 50, "--valid", 20, "--test", 30)
    done = run_script(SCRIPT, *write(tmp_path, pairs), "--output", tmp_path / "raw", *flags)
    assert done.returncode == 0, done.stderr
    expected = split_groups.split(pairs, 50, 20, 30)
    assert len(expected["train"]) == 50
    for name, chosen in expected.items():
        sides = [(tmp_path / "raw" / f"{name}.{lang}").read_text() for lang in ("en", "de")]
        assert list(zip(*(side.split("\n")[:-1] for side in sides), strict=True)) == chosen


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--test", 4000], "--test 4000: the corpus has too few pairs"),
        (["--valid", -1], "can't be negative"),
    ],
)
def test_mistakes(tmp_path, flags, part):
    paths = write(tmp_path, corpus(3))
    done = run_script(SCRIPT, *paths, "--output", tmp_path / "raw", "--test", 5, *flags)
    assert_one_line_error(done, part)
    assert not (tmp_path / "raw").exists()
