"""Made-up English sentences with their French translations, from a small grammar and a seed.

Every English sentence has one translation. The French has gender, agreement, adjectives before and
after the noun, elision (l'arbre, n'aime, qu'elle), contraction (au, aux) and negation in two words.
"""

import random
from collections.abc import Iterator
from typing import NamedTuple


class Noun(NamedTuple):
    """English and French singular, with the French gender; plurals are regular."""

    english: str
    french: str
    feminine: bool


class Adjective(NamedTuple):
    """English, French masculine and feminine, and whether it precedes the noun."""

    english: str
    masculine: str
    feminine: str
    before: bool


class Verb(NamedTuple):
    """English and French infinitive and third persons, singular and plural; takes an object."""

    english: str
    singular: str
    plural: str


PEOPLE = [
    *[Noun("baker", "boulanger", False), Noun("teacher", "professeur", False)],
    *[Noun("girl", "fille", True), Noun("friend", "ami", False), Noun("queen", "reine", True)],
    *[Noun("doctor", "médecin", False), Noun("actress", "actrice", True)],
    *[Noun("student", "étudiant", False), Noun("singer", "chanteur", False)],
]
THINGS = [
    *[Noun("house", "maison", True), Noun("tree", "arbre", False), Noun("book", "livre", False)],
    *[Noun("car", "voiture", True), Noun("island", "île", True), Noun("garden", "jardin", False)],
    *[Noun("letter", "lettre", True), Noun("school", "école", True), Noun("bridge", "pont", False)],
    *[Noun("chair", "chaise", True), Noun("hotel", "hôtel", False), Noun("door", "porte", True)],
]
ADJECTIVES = [
    *[Adjective("small", "petit", "petite", True), Adjective("big", "grand", "grande", True)],
    *[Adjective("red", "rouge", "rouge", False), Adjective("green", "vert", "verte", False)],
    *[
        Adjective("strange", "étrange", "étrange", False),
        Adjective("bad", "mauvais", "mauvaise", True),
    ],
    *[Adjective("young", "jeune", "jeune", True), Adjective("black", "noir", "noire", False)],
]
VERBS = [
    *[Verb("see", "voit", "voient"), Verb("like", "aime", "aiment")],
    *[Verb("look for", "cherche", "cherchent"), Verb("find", "trouve", "trouvent")],
    *[Verb("draw", "dessine", "dessinent"), Verb("buy", "achète", "achètent")],
    *[Verb("describe", "décrit", "décrivent"), Verb("forget", "oublie", "oublient")],
]
PLACES = [
    *[("in the garden", "dans le jardin"), ("at the market", "au marché")],
    *[("near the station", "près de la gare"), ("in the mountains", "à la montagne")],
    *[("", "")],
]
TIMES = [("today", "aujourd'hui"), ("in the evening", "le soir"), ("often", "souvent"), ("", "")]
NUMBERS = [("two", "deux"), ("three", "trois"), ("seven", "sept"), ("twelve", "douze")]
_VOWELS = tuple("aeiouyéèêàâîôûh")  # every h in the lists above is mute


def _elide(short: str, full: str, following: str) -> str:
    return f"{short}'{following}" if following.startswith(_VOWELS) else f"{full} {following}"


def noun_phrase(rng: random.Random, nouns: list[Noun]) -> tuple[str, str, bool]:
    """A noun with article or number and perhaps an adjective: English, French, whether plural."""
    noun, adjective = rng.choice(nouns), rng.choice([*ADJECTIVES, None, None, None, None])
    kind = rng.choice(["the", "a", "number"])
    plural = "s" if kind == "number" else ""
    english, french = noun.english + plural, noun.french + plural
    if adjective:
        english = f"{adjective.english} {english}"
        form = adjective.feminine if noun.feminine else adjective.masculine
        if not form.endswith("s"):
            form += plural
        french = f"{form} {french}" if adjective.before else f"{french} {form}"
    if kind == "number":
        number = rng.choice(NUMBERS)
        return f"{number[0]} {english}", f"{number[1]} {french}", True
    if kind == "the":
        return f"the {english}", _elide("l", "la" if noun.feminine else "le", french), False
    article = "an" if english.startswith(tuple("aeiou")) else "a"
    return f"{article} {english}", f"{'une' if noun.feminine else 'un'} {french}", False


def clause(rng: random.Random) -> tuple[str, str]:
    """Subject, verb, object and perhaps a place, affirmed or denied: English and French."""
    subject, french_subject, plural = noun_phrase(rng, PEOPLE)
    thing, french_thing, _ = noun_phrase(rng, THINGS)
    verb, place = rng.choice(VERBS), rng.choice(PLACES)
    french_verb = verb.plural if plural else verb.singular
    if rng.random() < 0.25:
        english_verb = f"{'do' if plural else 'does'} not {verb.english}"
        french_verb = _elide("n", "ne", french_verb) + " pas"
    else:
        first, *rest = verb.english.split(" ")
        english_verb = verb.english if plural else " ".join([first + "s", *rest])
    english = f"{subject} {english_verb} {thing} {place[0]}".rstrip()
    return english, f"{french_subject} {french_verb} {french_thing} {place[1]}".rstrip()


def pairs(seed: int) -> Iterator[tuple[str, str]]:
    """Yields English-French sentence pairs without end; the same seed gives the same pairs."""
    rng = random.Random(seed)
    while True:
        english, french = clause(rng)
        time = rng.choice(TIMES)
        if rng.random() < 0.15:
            speaker = rng.choice([("he", "il"), ("she", "elle"), ("Anne", "Anne")])
            english = f"{speaker[0]} says that {english}"
            french = f"{speaker[1]} dit {_elide('qu', 'que', french)}"
        elif time[0]:
            english, french = f"{time[0]} {english}", f"{time[1]} {french}"
        yield english[0].upper() + english[1:] + ".", french[0].upper() + french[1:] + "."
