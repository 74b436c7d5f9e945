"""Random sentence pairs of the toy corpus: chooses the kind of a sentence and its words.

Every choice goes through `Sampler.pick`, which uses only random(). For a given seed, random()
returns the same numbers in every version of Python; choice and sample do not.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import toy_lexicon as lexicon
from toy_clauses import Clause, Pair, prepositional
from toy_german import (
    IT,
    POSSESSIVES,
    PRONOUNS,
    WHO,
    Phrase,
    Subject,
    english_number,
    english_ordinal,
    german_number,
    german_ordinal,
)
from toy_lexicon import VERBS

T = TypeVar("T")
SHORTEST, LONGEST = 4, 18  # English words

_DAYS = {
    "January": ("Januar", 31),
    "February": ("Februar", 28),
    "March": ("März", 31),
    "April": ("April", 30),
    "May": ("Mai", 31),
    "June": ("Juni", 30),
    "July": ("Juli", 31),
    "August": ("August", 31),
    "September": ("September", 30),
    "October": ("Oktober", 31),
    "November": ("November", 30),
    "December": ("Dezember", 31),
}
_WEEKDAYS = (
    "Monday Montag Tuesday Dienstag Wednesday Mittwoch Thursday Donnerstag Friday Freitag "
    "Saturday Samstag Sunday Sonntag"
).split()
_SPANS = (("days", "Tagen"), ("weeks", "Wochen"), ("years", "Jahren"))
_FREQUENCIES = (("often", "oft"), ("always", "immer"), ("never", "nie"), ("sometimes", "manchmal"))
_ANYTIME = (("today", "heute"), ("in the morning", "am Morgen"), ("in the evening", "am Abend"))
_BEFORE = (("yesterday", "gestern"), ("last week", "letzte Woche"), ("last year", "letztes Jahr"))
_AFTER = (("tomorrow", "morgen"), ("next week", "nächste Woche"), ("next year", "nächstes Jahr"))
_TENSES = ("present", "past", "perfect", "future")
_PAST = ("past", "could", "wanted", "had")
_MODES = (
    ("present",) * 7
    + ("past",) * 5
    + ("perfect",) * 5
    + ("future",) * 3
    + ("can", "must", "should", "may", "want", "want", "could", "wanted", "had")
)
# "must not" forbids and "did not have to" permits: German uses another verb for them.
_NEVER_NEGATED = ("must", "had")
_CAUSES = ("present", "present", "past", "perfect", "can", "must", "want", "could", "wanted")
_CONSEQUENCES = ("present", "present", "future", "can", "must", "should", "may", "want")


class Sampler:
    """Draws sentence pairs from one random stream."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, items: Sequence[T]) -> T:
        """Draws an item; all are equally likely."""
        return items[int(self._random.random() * len(items))]

    def chance(self, probability: float) -> bool:
        """True with `probability`."""
        return self._random.random() < probability

    def between(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return low + int(self._random.random() * (high - low + 1))

    # Phrases

    def phrase(self, kinds: str, determiners: str, adjective: float = 0.35) -> Phrase:
        """A noun phrase; kinds and determiners (the, a, my, this, no, two) are separated by " "."""
        kind = self.pick(kinds.split())
        noun = self.pick(list(lexicon.NOUNS[kind].values()))
        choice = self.pick(determiners.split())
        count = self.between(2, 99 if self.chance(0.5) else 12) if choice == "two" else 0
        determiner = self.pick(POSSESSIVES) if choice == "my" else "" if count else choice
        plural = bool(count) or (choice != "no" and self.chance(0.3))
        adjectives: tuple = ()
        if self.chance(adjective):
            names = lexicon.ADJECTIVES_OF[kind].split()
            adjectives = (lexicon.ADJECTIVES[self.pick(names)],)
        return Phrase(determiner, adjectives, noun, plural, count)

    def subject(self, kinds: str = "person person person animal") -> Subject:
        """A pronoun or a noun phrase."""
        if self.chance(0.4):
            return self.pick(PRONOUNS)
        return self.phrase(kinds, "the the the the the my my my a this two no")

    def person(self) -> Subject:
        """A person, as subject."""
        return self.subject("person")

    def object(self, kinds: str, definite: bool = False) -> Subject:
        """A noun phrase, or a pronoun that can't be read as reflexive."""
        if self.chance(0.15):
            return self.pick((IT, PRONOUNS[5]) if "person" not in kinds else PRONOUNS[2:4])
        determiners = "the the my" if definite else "the the the a a a my my two this"
        return self.phrase(kinds, determiners)

    # Times and places

    def time(self, mode: str) -> Pair:
        """An adverbial of time that suits the mode."""
        roll = self.between(1, 6)
        if roll == 1:
            month = self.pick(list(_DAYS))
            german, days = _DAYS[month]
            day = self.between(1, days)
            spoken = f"on the {english_ordinal(day)} of {month}"
            return spoken, f"am {german_ordinal(day)} {german}"
        if roll == 2:
            at = 2 * self.between(0, 6)
            return f"on {_WEEKDAYS[at]}", f"am {_WEEKDAYS[at + 1]}"
        if roll == 3:
            hour = self.between(1, 12)
            return f"at {english_number(hour)} o'clock", f"um {german_number(hour)} Uhr"
        if roll == 4 and mode in (*_PAST, "future"):
            count, (english, german) = self.between(2, 12), self.pick(_SPANS)
            if mode == "future":
                return (
                    f"in {english_number(count)} {english}",
                    f"in {german_number(count)} {german}",
                )
            return f"{english_number(count)} {english} ago", f"vor {german_number(count)} {german}"
        if roll == 5 and mode in _PAST:
            return self.pick(_BEFORE)
        if roll == 5 and mode in ("future", "can", "must", "want"):
            return self.pick(_AFTER)
        return self.pick(_ANYTIME)

    def place(self) -> Pair:
        """A place: in the garden, behind the house, next to the table."""
        if self.chance(0.6):
            return prepositional("in", "in", "dat", self.phrase("place", "the the the my a this"))
        english, german = self.pick(
            (("behind", "hinter"), ("next to", "neben"), ("in front of", "vor"))
        )
        kind = self.pick(("machine", "place", "head"))
        return prepositional(english, german, "dat", self.phrase(kind, "the the my a", 0.2))

    def direction(self) -> Pair:
        """A direction: into the garden, to the doctor."""
        if self.chance(0.6):
            return prepositional("into", "in", "acc", self.phrase("place", "the the the a this"))
        return prepositional("to", "zu", "dat", self.phrase("person", "the the my a"))

    def companion(self) -> Pair:
        """A phrase with "with", "without" or "for" and a person."""
        words = (("with", "mit", "dat"), ("without", "ohne", "acc"), ("for", "für", "acc"))
        english, german, case = self.pick(words)
        chosen = self.pick(PRONOUNS[2:4]) if self.chance(0.15) else None
        kinds = "person person animal" if english != "for" else "person"
        return prepositional(english, german, case, chosen or self.phrase(kinds, "the my my a"))

    # Clauses

    def mode(self) -> str:
        """A tense or modal."""
        return self.pick(_MODES)

    def plain_clause(self, mode: str) -> Clause:
        """Subject, verb and objects, not negated, without time."""
        kind = self.pick(("intransitive", "motion", "dative", "ditransitive", *["transitive"] * 5))
        if kind == "intransitive":
            verb = VERBS[self.pick(lexicon.INTRANSITIVE)]
            subject = self.subject() if verb.english in ("sleep", "wait", "wake") else self.person()
            return Clause(subject, verb, mode)
        if kind == "motion":
            verb = VERBS[self.pick(lexicon.MOTION.split())]
            return Clause(self.person(), verb, mode, phrases=(self.direction(),))
        if kind == "dative":
            verb = VERBS[self.pick(lexicon.DATIVE.split())]
            return Clause(self.person(), verb, mode, dative=self.object("person"))
        if kind == "ditransitive":
            verb = VERBS[self.pick(lexicon.DITRANSITIVE.split())]
            goods = self.object("thing food garment")
            dative = self.object("person", definite=True)
            return Clause(self.person(), verb, mode, accusative=goods, dative=dative)
        return self.transitive(mode)

    def transitive(self, mode: str) -> Clause:
        """A clause with an accusative object."""
        if self.chance(0.15):
            name = self.pick(list(lexicon.CHOOSY))
            wanted = self.pick(lexicon.CHOOSY[name])
            phrase = self.phrase("thing", "the the a a my this")
            noun = next(nouns[wanted] for nouns in lexicon.NOUNS.values() if wanted in nouns)
            return Clause(self.person(), VERBS[name], mode, accusative=replace(phrase, noun=noun))
        name = self.pick(list(lexicon.TRANSITIVE))
        subject = self.subject() if name in ("see", "find", "look for") else self.person()
        return Clause(subject, VERBS[name], mode, accusative=self.object(lexicon.TRANSITIVE[name]))

    def clause(self, mode: str | None = None, extras: float = 0.4) -> Clause:
        """A clause with negation, time, frequency or phrases, or one with "be"."""
        mode = mode or self.mode()
        if mode in ("present", "past") and self.chance(0.25):
            return self.predicative(mode)
        clause = self.plain_clause(mode)
        if _negative_word(clause.subject) and mode not in _TENSES:
            clause = replace(clause, mode="present")
            mode = "present"
        if self.chance(0.2) and _can_negate(clause):
            clause = replace(clause, negated=True)
        elif mode in _TENSES and mode != "future" and self.chance(0.2):
            if not _negative_word(clause.subject):
                clause = replace(clause, frequency=self.pick(_FREQUENCIES))
        if mode != "perfect" and not clause.frequency and self.chance(extras):
            clause = replace(clause, time=self.time(mode))
        if not clause.phrases and self.chance(extras * 0.7):
            phrase = self.place() if self.chance(0.6) else self.companion()
            clause = replace(clause, phrases=(phrase,))
        return clause

    def predicative(self, mode: str) -> Clause:
        """Somebody or something is old, older than another, or a number of years old."""
        kind = self.pick(("person", "person", "thing", "head", "place", "garment", "food"))
        determiners = "the the the my my this"
        subject = self.phrase(kind, determiners, 0.15)
        if kind == "person" and self.chance(0.4):
            subject = self.pick(PRONOUNS)
        adjective = lexicon.ADJECTIVES[self.pick(lexicon.ADJECTIVES_OF[kind].split())]
        predicate = (adjective.english, adjective.german)
        negated = self.chance(0.2)
        time = None
        if kind == "person" and self.chance(0.2):
            age = self.between(2, 99)
            predicate = (f"{english_number(age)} years old", f"{german_number(age)} Jahre alt")
            negated = False
        elif adjective.english_comparative != "-" and self.chance(0.4):
            other = self.phrase(kind, determiners, 0.1)
            predicate = (
                f"{adjective.english_comparative} than {other.english()}",
                f"{adjective.german_comparative} als {other.german('nom')}",
            )
        elif adjective.english in ("tired", "happy") and self.chance(0.4):
            time = self.pick(_ANYTIME)
        return Clause(subject, VERBS["be"], mode, negated, predicate=predicate, time=time)

    def priced(self) -> Clause:
        """Something costs a number of euros."""
        subject = self.phrase("thing compound garment food", "the the my this", 0.4)
        price = self.between(2, 99)
        money = (f"{english_number(price)} euros", f"{german_number(price)} Euro")
        return Clause(replace(subject, plural=False), VERBS["cost"], predicate=money)

    # Sentences

    def sentence(self) -> Pair:
        """One sentence pair of any kind, of SHORTEST to LONGEST English words."""
        kinds = (self.statement,) * 9 + (self.question,) * 3 + (self.complex,) * 6
        kinds += (self.reported,) * 3 + (self.joined,) * 2 + (self.existence,)
        while True:
            english, german = self.pick(kinds)()
            if SHORTEST <= len(english.split()) <= LONGEST:
                return english, german

    def statement(self) -> Pair:
        """A main clause; another element than the subject may come first."""
        if self.chance(0.05):
            clause = self.priced()
            return _sentence(clause.english(), clause.german())
        clause, front = self.clause(extras=0.6), "subject"
        accusative = clause.accusative
        if clause.time and self.chance(0.5):
            front = "time"
        elif clause.phrases and clause.verb.english not in lexicon.MOTION and self.chance(0.25):
            front = "place"
        elif accusative and accusative.determiner == "this" and clause.subject.pronoun:
            front = "object"
        return _sentence(clause.english(front), clause.german(front))

    def question(self) -> Pair:
        """A question: yes/no, when, why, where, who or what."""
        words = (("", ""), ("", ""), ("when", "wann"), ("why", "warum"), ("where", "wo"))
        english, german = self.pick((*words, ("who", "wer"), ("what", "was")))
        clause = self.clause(extras=0.3)
        # "Who is fresh?" and "When is it old?" make no sense.
        unfit = english in ("when", "where", "who")
        while _negative_word(clause.subject) or (clause.predicate and unfit):
            clause = self.clause(extras=0.3)
        if english in ("when", "where"):
            clause = replace(clause, time=None, frequency=None, negated=False)
        if english == "where":
            while clause.verb.english in _NO_PLACE or clause.predicate:
                clause = replace(self.plain_clause(clause.mode), phrases=())
            clause = replace(clause, phrases=())
        if english == "who":
            clause = replace(clause, subject=WHO)
            return _sentence(clause.english(), clause.german(), "?")
        if english == "what":
            clause = replace(self.transitive(clause.mode), time=clause.time)
            while clause.verb.english not in _WHAT:
                clause = replace(self.transitive(clause.mode), time=clause.time)
        return _sentence(clause.english_question(english), clause.german_question(german), "?")

    def complex(self) -> Pair:
        """A main and an adverbial clause (because, although, if, when, before), in either order."""
        english, german, modes = self.pick(_CONJUNCTIONS)
        mode = self.pick(modes)
        main_mode = {"when": mode, "before": mode, "if": self.pick(_CONSEQUENCES)}.get(english)
        main = self.clause(main_mode, extras=0.15)
        side = self.clause(mode, extras=0.2)
        if english in ("if", "when", "before"):
            side = replace(side, negated=False)
        if english == "when":
            # German "als" refers to a single occasion.
            main, side = replace(main, frequency=None), replace(side, frequency=None)
        if english in ("when", "before") and side.verb.english == "be":
            side = self.plain_clause(mode)
        side_english, side_german = f"{english} {side.english()}", f"{german} {side.german_final()}"
        if self.chance(0.4):
            return _sentence(
                f"{side_english}, {main.english()}", f"{side_german}, {main.german_after_clause()}"
            )
        comma = "," if english == "although" else ""
        return _sentence(
            f"{main.english()}{comma} {side_english}", f"{main.german()}, {side_german}"
        )

    def reported(self) -> Pair:
        """I know that ...: a clause as object."""
        verb = VERBS[self.pick(lexicon.REPORTING.split())]
        mode = self.pick(("present", "present", "past"))
        negated = verb.english in ("know", "believe") and self.chance(0.25)
        outer = Clause(self.person(), verb, mode, negated)
        inner_mode = self.pick(("past", "could", "wanted")) if mode == "past" else None
        inner = self.clause(inner_mode, extras=0.25)
        if _negative_word(outer.subject):
            outer = replace(outer, negated=False)
        return _sentence(
            f"{outer.english()} that {inner.english()}",
            f"{outer.german()}, dass {inner.german_final()}",
        )

    def joined(self) -> Pair:
        """Two main clauses joined by but or and."""
        english, german = self.pick(((", but", ", aber"), (", and", ", und"), (", but", ", aber")))
        first, second = self.clause(extras=0.15), self.clause(extras=0.15)
        return _sentence(
            f"{first.english()}{english} {second.english()}",
            f"{first.german()}{german} {second.german()}",
        )

    def existence(self) -> Pair:
        """There is a dog in the garden."""
        there = self.phrase("animal thing head person compound", "a a two no")
        place = prepositional("in", "in", "dat", self.phrase("place", "the the my this"))
        verb = "are" if there.plural else "is"
        return _sentence(
            f"there {verb} {there.english()} {place[0]}",
            f"es gibt {there.german('acc')} {place[1]}",
        )


# Verbs that make no sense with "where", or with which it asks for a direction.
_NO_PLACE = ("go", "run", "drive", "have", "need", "love", "understand", "be", "cost")
_WHAT = ("buy", "sell", "find", "look", "need", "forget", "eat", "drink", "repair", "carry", "see")
_CONJUNCTIONS = (
    ("because", "weil", _CAUSES),
    ("because", "weil", _CAUSES),
    ("although", "obwohl", _CAUSES),
    ("if", "wenn", ("present", "present", "can", "want")),
    ("when", "als", ("past",)),
    ("before", "bevor", ("past", "present")),
)


def _negative_word(subject: Subject) -> bool:
    return subject.determiner == "no"


def _can_negate(clause: Clause) -> bool:
    """Whether "nicht" or "kein" has the same meaning and scope as the English "not"."""
    phrases = (clause.subject, clause.accusative, clause.dative)
    counted = any(phrase and phrase.count for phrase in phrases)
    # "a" in the subject: ein Mann ... nicht is fine; "no" beside "not" is not.
    indefinite_dative = clause.accusative and clause.dative and clause.dative.indefinite
    blocked = counted or indefinite_dative or _negative_word(clause.subject)
    return not blocked and clause.mode not in _NEVER_NEGATED


def _sentence(english: str, german: str, mark: str = ".") -> Pair:
    return _capital(english) + mark, _capital(german) + mark


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def pairs(seed: int) -> Iterator[Pair]:
    """Yields sentence pairs without end; the same seed gives the same pairs; pairs may repeat."""
    sampler = Sampler(seed)
    while True:
        yield sampler.sentence()
