"""The embedded corpus: German written by hand for each rule, and the splits' promises."""

import itertools
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.conftest import REPO
from vaswani_plugin.text.output_files import write_atomically

SCRIPT = REPO / "data-prep" / "toy_translation.py"
sys.path.insert(0, str(SCRIPT.parent))

import toy_german as german  # noqa: E402
import toy_lexicon as lexicon  # noqa: E402
import toy_translation  # noqa: E402
from toy_clauses import Clause, prepositional  # noqa: E402
from toy_german import IT, PRONOUNS, WHO, Phrase  # noqa: E402
from toy_sentences import pairs  # noqa: E402

ME, YOU, HE, SHE, WE, THEY = PRONOUNS
NOUNS = {name: noun for table in lexicon.NOUNS.values() for name, noun in table.items()}
SMALL = {"train": 300, "valid": 40, "test": 60}


def phrase(determiner: str, words: str, plural: bool = False, count: int = 0) -> Phrase:
    """`phrase("the", "small dog")`; the last word(s) that make a noun are the noun."""
    adjectives = tuple(
        itertools.takewhile(lambda word: word in lexicon.ADJECTIVES, words.split(" "))
    )
    noun = NOUNS[" ".join(words.split(" ")[len(adjectives) :])]
    return Phrase(
        determiner,
        tuple(lexicon.ADJECTIVES[a] for a in adjectives),
        noun,
        plural or count > 1,
        count,
    )


def verb(name: str) -> lexicon.Verb:
    return lexicon.VERBS[name]


@pytest.mark.parametrize(
    ("determiner", "words", "plural", "forms"),
    [
        ("the", "small dog", False, "der kleine Hund|den kleinen Hund|dem kleinen Hund"),
        ("a", "small dog", False, "ein kleiner Hund|einen kleinen Hund|einem kleinen Hund"),
        ("a", "old cat", False, "eine alte Katze|eine alte Katze|einer alten Katze"),
        ("the", "old cat", False, "die alte Katze|die alte Katze|der alten Katze"),
        ("a", "red book", False, "ein rotes Buch|ein rotes Buch|einem roten Buch"),
        ("the", "red book", False, "das rote Buch|das rote Buch|dem roten Buch"),
        ("no", "red book", True, "keine roten Bücher|keine roten Bücher|keinen roten Büchern"),
        ("a", "red book", True, "rote Bücher|rote Bücher|roten Büchern"),
        ("the", "red book", True, "die roten Bücher|die roten Bücher|den roten Büchern"),
        ("this", "boy", False, "dieser Junge|diesen Jungen|diesem Jungen"),
        ("her", "neighbor", False, "ihr Nachbar|ihren Nachbarn|ihrem Nachbarn"),
        ("our", "car", True, "unsere Autos|unsere Autos|unseren Autos"),
        ("my", "expensive coat", False, "mein teurer Mantel|meinen teuren Mantel|"),
        ("this", "dark city", False, "diese dunkle Stadt|diese dunkle Stadt|dieser dunklen Stadt"),
        ("the", "garden door", False, "die Gartentür|die Gartentür|der Gartentür"),
        ("a", "office chair", True, "Bürostühle|Bürostühle|Bürostühlen"),
        ("the", "work coat", False, "der Arbeitsmantel|den Arbeitsmantel|dem Arbeitsmantel"),
        ("the", "children's shoe", True, "die Kinderschuhe|die Kinderschuhe|den Kinderschuhen"),
    ],
)
def test_phrase_is_declined(determiner: str, words: str, plural: bool, forms: str) -> None:
    made = phrase(determiner, words, plural)
    for case, form in zip(("nom", "acc", "dat"), forms.split("|"), strict=True):
        assert not form or made.german(case) == form


def test_counted_phrase_has_strong_endings() -> None:
    assert phrase("", "small dog", count=21).german("dat") == "einundzwanzig kleinen Hunden"
    assert phrase("", "small dog", count=21).english() == "twenty-one small dogs"


@pytest.mark.parametrize(
    ("number", "english", "german_word"),
    [
        (2, "two", "zwei"),
        (12, "twelve", "zwölf"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (20, "twenty", "zwanzig"),
        (21, "twenty-one", "einundzwanzig"),
        (30, "thirty", "dreißig"),
        (66, "sixty-six", "sechsundsechzig"),
        (77, "seventy-seven", "siebenundsiebzig"),
        (99, "ninety-nine", "neunundneunzig"),
    ],
)
def test_cardinal_numbers(number: int, english: str, german_word: str) -> None:
    assert german.english_number(number) == english
    assert german.german_number(number) == german_word


@pytest.mark.parametrize(
    ("number", "english", "german_word"),
    [
        (1, "first", "ersten"),
        (3, "third", "dritten"),
        (5, "fifth", "fünften"),
        (7, "seventh", "siebten"),
        (8, "eighth", "achten"),
        (12, "twelfth", "zwölften"),
        (16, "sixteenth", "sechzehnten"),
        (20, "twentieth", "zwanzigsten"),
        (21, "twenty-first", "einundzwanzigsten"),
        (30, "thirtieth", "dreißigsten"),
        (31, "thirty-first", "einunddreißigsten"),
    ],
)
def test_ordinal_numbers(number: int, english: str, german_word: str) -> None:
    assert german.english_ordinal(number) == english
    assert german.german_ordinal(number) == german_word


YESTERDAY = ("yesterday", "gestern")
CALL_CHILD = dict(verb=verb("call"), accusative=phrase("the", "child"))
BUY_CAR = dict(subject=HE, verb=verb("buy"), accusative=phrase("a", "car"))


@pytest.mark.parametrize(
    ("clause", "english", "statement", "final"),
    [
        (
            Clause(ME, **CALL_CHILD),
            "I call the child",
            "ich rufe das Kind an",
            "ich das Kind anrufe",
        ),
        (
            Clause(YOU, mode="perfect", **CALL_CHILD),
            "you have called the child",
            "du hast das Kind angerufen",
            "du das Kind angerufen hast",
        ),
        (
            Clause(SHE, mode="want", **CALL_CHILD),
            "she wants to call the child",
            "sie will das Kind anrufen",
            "sie das Kind anrufen will",
        ),
        (
            Clause(WE, mode="past", negated=True, **CALL_CHILD),
            "we did not call the child",
            "wir riefen das Kind nicht an",
            "wir das Kind nicht anriefen",
        ),
        (
            Clause(mode="future", negated=True, **BUY_CAR),
            "he will not buy a car",
            "er wird kein Auto kaufen",
            "er kein Auto kaufen wird",
        ),
        (
            Clause(mode="can", negated=True, **BUY_CAR),
            "he cannot buy a car",
            "er kann kein Auto kaufen",
            "er kein Auto kaufen kann",
        ),
        (
            Clause(THEY, verb("wake up"), "perfect"),
            "they have woken up",
            "sie sind aufgewacht",
            "sie aufgewacht sind",
        ),
        (
            Clause(YOU, verb("pick up"), accusative=HE),
            "you pick him up",
            "du holst ihn ab",
            "du ihn abholst",
        ),
        (
            Clause(HE, verb("look for"), accusative=SHE, negated=True),
            "he does not look for her",
            "er sucht sie nicht",
            "er sie nicht sucht",
        ),
        (
            Clause(SHE, verb("give"), accusative=IT, dative=HE),
            "she gives it to him",
            "sie gibt es ihm",
            "sie es ihm gibt",
        ),
        (
            Clause(SHE, verb("give"), accusative=phrase("a", "book"), dative=phrase("my", "boy")),
            "she gives my boy a book",
            "sie gibt meinem Jungen ein Buch",
            "sie meinem Jungen ein Buch gibt",
        ),
        (
            Clause(YOU, verb("find"), "past", accusative=IT),
            "you found it",
            "du fandest es",
            "du es fandest",
        ),
        (
            Clause(HE, verb("help"), frequency=("never", "nie"), dative=phrase("the", "woman")),
            "he never helps the woman",
            "er hilft nie der Frau",
            "er nie der Frau hilft",
        ),
        (
            Clause(
                phrase("the", "house", True), verb("be"), "past", True, predicate=("old", "alt")
            ),
            "the houses were not old",
            "die Häuser waren nicht alt",
            "die Häuser nicht alt waren",
        ),
    ],
)
def test_clause(clause: Clause, english: str, statement: str, final: str) -> None:
    assert clause.english() == english
    assert clause.german() == statement
    assert clause.german_final() == final


def test_fronting_inverts_subject_and_verb() -> None:
    clause = Clause(HE, mode="past", time=YESTERDAY, **CALL_CHILD)
    assert clause.english("time") == "yesterday he called the child"
    assert clause.german("time") == "gestern rief er das Kind an"
    assert clause.german() == "er rief gestern das Kind an"
    topic = Clause(ME, verb("find"), accusative=phrase("this", "book"), time=("today", "heute"))
    assert topic.english("object") == "this book I find today"
    assert topic.german("object") == "dieses Buch finde ich heute"


def test_negated_definite_object_comes_before_the_time() -> None:
    clause = Clause(HE, mode="past", time=YESTERDAY, negated=True, **CALL_CHILD)
    assert clause.german() == "er rief das Kind gestern nicht an"


def test_questions() -> None:
    clause = Clause(SHE, **CALL_CHILD)
    assert clause.english_question("when") == "when does she call the child"
    assert clause.german_question("wann") == "wann ruft sie das Kind an"
    asked = Clause(SHE, verb("look for"), mode="perfect", accusative=IT)
    assert asked.english_question("what") == "what has she looked for"
    assert asked.german_question("was") == "was hat sie gesucht"
    who = Clause(WHO, mode="wanted", **CALL_CHILD)
    assert who.english() == "who wanted to call the child"
    assert who.german() == "wer wollte das Kind anrufen"


def test_prepositions_take_their_case_and_contract() -> None:
    garden, school = phrase("the", "old garden"), phrase("the", "school")
    assert prepositional("in", "in", "dat", garden) == ("in the old garden", "im alten Garten")
    assert prepositional("into", "in", "acc", garden)[1] == "in den alten Garten"
    assert prepositional("into", "in", "acc", phrase("the", "house"))[1] == "ins Haus"
    assert prepositional("into", "in", "acc", phrase("this", "house"))[1] == "in dieses Haus"
    assert prepositional("in", "in", "dat", school)[1] == "in der Schule"
    assert prepositional("to", "zu", "dat", phrase("the", "woman"))[1] == "zur Frau"
    assert prepositional("with", "mit", "dat", HE) == ("with him", "mit ihm")


def test_english_past_differs_from_present_where_both_occur() -> None:
    for name, entry in lexicon.VERBS.items():
        # "cost" occurs in the present third person only.
        assert name == "cost" or entry.english != entry.english_past, name


SAMPLE = 4000


@pytest.fixture(scope="module")
def sample() -> list[tuple[str, str]]:
    return list(itertools.islice(pairs(seed=3), SAMPLE))


def finite_forms() -> set[str]:
    """Every German finite form the corpus can have, without prefixes."""
    forms = set()
    modes = ("present", "past", "perfect", "future", *german._MODALS)
    for entry, mode, subject in itertools.product(lexicon.VERBS.values(), modes, PRONOUNS):
        forms.add(german.german_verb(entry, mode, subject)[0])
        if mode in ("present", "past"):
            forms.add(german.german_verb(entry, mode, subject)[2])
    return forms


def test_fronted_adverb_is_followed_by_the_verb(sample: list[tuple[str, str]]) -> None:
    forms = finite_forms()
    fronted = [g.split() for _, g in sample if g.startswith(("Gestern ", "Heute ", "Morgen "))]
    assert len(fronted) > 10
    assert all(words[1] in forms for words in fronted)


def test_subordinate_clause_ends_with_the_verb(sample: list[tuple[str, str]]) -> None:
    forms = finite_forms()
    last = [
        g.partition(f", {word} ")[2].rstrip(".").split()[-1]
        for _, g in sample
        for word in ("weil", "dass", "obwohl", "wenn")
        if f", {word} " in g
    ]
    assert len(last) > 300
    assert [word for word in last if word not in forms] == []


def test_nouns_are_capital_and_text_is_clean(sample: list[tuple[str, str]]) -> None:
    # "junge" is also the adjective.
    singular = {noun.german.lower() for noun in NOUNS.values()} - {"junge"}
    for english, german_text in sample:
        words = german_text.rstrip(".?").replace(",", "").split()
        assert not [w for w in words[1:] if w in singular], german_text
        for text in (english, german_text):
            assert text == " ".join(text.split()) and text[0].isupper()
            assert text[-1] in ".?" and "None" not in text and text.count("?") <= 1
        assert 4 <= len(english.split()) <= 18
        assert (english[-1], english.isascii()) == (german_text[-1], True)


def test_grammar_has_far_more_sentences_than_the_corpus() -> None:
    drawn = 20_000
    distinct = len(set(itertools.islice(pairs(seed=5), drawn)))
    # By the birthday estimate (repeats = drawn^2 / 2 sentences), were all equally likely.
    assert drawn - distinct < 0.01 * drawn


def test_splits_are_disjoint_and_of_the_asked_size() -> None:
    corpus = toy_translation.make_corpus(SMALL, seed=1)
    assert {split: len(chosen) for split, chosen in corpus.items()} == SMALL
    for side in (0, 1):
        texts = [pair[side] for chosen in corpus.values() for pair in chosen]
        assert len(texts) == len(set(texts)) == sum(SMALL.values())


def test_test_set_stays_when_training_grows() -> None:
    small = toy_translation.make_corpus(SMALL, seed=1)
    grown = toy_translation.make_corpus(SMALL | {"train": 500}, seed=1)
    assert grown["test"] == small["test"] and grown["valid"] == small["valid"]
    assert grown["train"][:300] == small["train"]


def test_leak_into_training_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    leaky = [(f"e{i}", f"g{i % 399}") for i in range(400)]
    monkeypatch.setattr(toy_translation, "distinct_pairs", lambda stream, count: leaky)
    with pytest.raises(AssertionError, match="occurs in the training set"):
        toy_translation.make_corpus(SMALL, seed=1)


def test_second_translation_of_a_sentence_is_caught() -> None:
    stream = [("a", "b"), ("c", "d"), ("a", "e")]
    with pytest.raises(AssertionError, match="two translations of 'a'"):
        toy_translation.distinct_pairs(stream, 3)


def test_repeats_on_either_side_are_left_out() -> None:
    stream = [("a", "b"), ("a", "b"), ("c", "b"), ("d", "e")]
    assert toy_translation.distinct_pairs(stream, 2) == [("a", "b"), ("d", "e")]
    with pytest.raises(ValueError, match="only 2 of 3 distinct pairs: ask for fewer"):
        toy_translation.distinct_pairs(stream, 3)
    with pytest.raises(ValueError, match="only 1 of 2"):
        toy_translation.distinct_pairs(itertools.repeat(("a", "b")), 2)


def run_script(*args: object) -> subprocess.CompletedProcess:
    command = [sys.executable, SCRIPT, *args]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_script_is_deterministic_for_a_seed(tmp_path: Path) -> None:
    sizes = ("--train", 300, "--valid", 40, "--test", 60)
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        result = run_script("--output", tmp_path / name, *sizes, "--seed", seed)
        assert result.returncode == 0, result.stderr
        assert "train 300" in result.stdout
    first, again, other = (contents(tmp_path / name) for name in "abc")
    assert first == again and first != other
    assert sorted(first) == sorted(f"{s}.{x}" for s in SMALL for x in ("de", "en"))
    assert first["test.de"].count(b"\n") == first["test.en"].count(b"\n") == 60
    assert first["train.de"].endswith(b".\n") or first["train.de"].endswith(b"?\n")


def test_script_errors_are_one_line(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("mine")
    result = run_script("--output", blocked)
    assert result.returncode == 1 and str(blocked) in result.stderr
    assert result.stderr.count("\n") == 1 and blocked.read_text() == "mine"
    result = run_script("--output", tmp_path / "new", "--train", 0)
    assert result.returncode == 2 and "give at least 1" in result.stderr
    result = run_script("--output", tmp_path / "new", "--train", "many")
    assert result.returncode == 2 and "invalid positive_int value: 'many'" in result.stderr
    assert not (tmp_path / "new").exists()


def test_failed_write_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.en").write_text("old\n")

    def refuse(path: Path) -> AbstractContextManager:
        if path.name == "valid.de":
            raise OSError(28, "No space left on device", str(path))
        return write_atomically(path)

    monkeypatch.setattr(toy_translation, "write_atomically", refuse)
    corpus = toy_translation.make_corpus(SMALL, seed=1)
    with pytest.raises(OSError, match="No space"):
        toy_translation.write_corpus(corpus, tmp_path)
    assert os.listdir(tmp_path) == ["train.en"]
    assert (tmp_path / "train.en").read_text() == "old\n"
