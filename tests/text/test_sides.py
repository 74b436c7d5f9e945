"""sides.py: pairs whose sides are swapped, in any two languages, and corpora that are."""

import os
import random
from pathlib import Path

import pytest

from vaswani_plugin.text.corpus_io import read_pairs
from vaswani_plugin.text.sides import Sides, seem_swapped

DATA = Path(os.environ.get("VASWANI_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def sentences(seed: int, letters: str, count: int = 400) -> list[str]:
    """Made-up words, three to nine a sentence, of one set of letters."""
    rng = random.Random(seed)
    words = ["".join(rng.choices(letters, k=rng.randint(2, 7))) for _ in range(60)]
    return [" ".join(rng.choices(words, k=rng.randint(3, 9))) for _ in range(count)]


def corpus(right_letters: str = "oluhmtwyg") -> list[tuple[str, str]]:
    """Two made-up languages that share some letters."""
    return list(zip(sentences(1, "aeinrstlo"), sentences(2, right_letters), strict=True))


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_swapped_pairs_are_found_in_any_language(share):
    pairs = corpus()
    rng = random.Random(3)
    is_swapped = [rng.random() < share for _ in pairs]
    sides = Sides([p[::-1] if s else p for p, s in zip(pairs, is_swapped, strict=True)])
    assert sides.differ
    assert not any(sides.swapped(*pair) for pair in pairs)
    found = sum(sides.swapped(right, left) for left, right in pairs)
    assert found > 0.95 * len(pairs)


def test_sides_that_are_alike_are_not_judged():
    pairs = list(zip(sentences(1, "aeinrstlo"), reversed(sentences(1, "aeinrstlo")), strict=True))
    sides = Sides(pairs)
    assert not sides.differ
    assert not any(sides.swapped(*pair) or sides.swapped(*pair[::-1]) for pair in pairs)


def test_without_a_sample_nothing_is_judged():
    assert not Sides([]).swapped("a", "b")


ENGLISH = ["The house is on the hill and the sea is near to it.", "He was in the room with you."]
GERMAN = ["Das Haus steht auf dem Berg und die See ist nicht fern.", "Er war mit dir in dem Raum."]
RUSSIAN = ["Дом стоит на холме.", "Он был с тобой в комнате."]
CHINESE = ["房子在山上,离海不远。", "他和你在房间里。"]
JAPANESE = ["家は丘の上にあります。", "彼はあなたと部屋にいた。"]
HINDI = ["घर पहाड़ी पर है।", "वह तुम्हारे साथ कमरे में था।"]
SORBIAN = ["Dom na hórce steji.", "Wón je z tobu w rumje był."]


@pytest.mark.parametrize(
    ("left", "right", "pair"),
    [
        (ENGLISH, GERMAN, ("en", "de")),
        (RUSSIAN, ENGLISH, ("ru", "en")),
        (CHINESE, ENGLISH, ("zh", "en")),
        (JAPANESE, GERMAN, ("ja", "de_AT")),
        (HINDI, RUSSIAN, ("hi", "ru")),
        (GERMAN, SORBIAN, ("de", "hsb")),  # nothing is known of one of them
    ],
)
def test_corpora_that_are_the_other_way_round(left, right, pair):
    pairs = list(zip(left, right, strict=True))
    assert not seem_swapped(pairs, *pair)
    assert seem_swapped([p[::-1] for p in pairs], *pair)


def test_nothing_is_said_of_unknown_languages_and_of_one_language_on_both_sides():
    assert not seem_swapped(list(zip(SORBIAN, SORBIAN, strict=True)), "hsb", "dsb")
    assert not seem_swapped(list(zip(ENGLISH, ENGLISH, strict=True)), "en", "hsb")
    assert not seem_swapped([("1", "2")], "en", "de")


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["multi30k", "tatoeba-en-de", "tatoeba-en-fr", "newstest/en-fr"])
def test_real_corpora(name):
    folder = DATA / name
    if not folder.is_dir():
        pytest.skip(f"NOT CHECKED: no {folder} (set VASWANI_DATA to a folder with {name} in it)")
    other = "fr" if name.endswith("fr") else "de"
    pairs = list(read_pairs(folder / "train.en.gz", folder / f"train.{other}.gz"))
    rng = random.Random(1)
    sample = rng.sample(pairs, 10_000)
    sides = Sides([pair[::-1] if rng.random() < 0.1 else pair for pair in sample])
    assert not any(sides.swapped(*pair) for pair in pairs[:10_000])
    assert sum(sides.swapped(right, left) for left, right in sample) > 0.85 * len(sample)
    assert not seem_swapped(sample, "en", other)
    assert seem_swapped([pair[::-1] for pair in sample], "en", other)
