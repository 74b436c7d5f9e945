"""One clause of the toy corpus in English and in German: word order, negation and questions.

German order: the verb is second in statements, first in yes/no questions, last in subordinate
clauses. The order between the two parts of the verb is: subject, pronouns, time, noun phrases,
"nicht", other phrases, predicate. In a negated clause, definite noun phrases precede the time.
"""

from dataclasses import dataclass

from toy_german import Phrase, Pronoun, Subject, german_verb
from toy_lexicon import Verb

Pair = tuple[str, str]  # English, German

# Mode: English words before the verb. "want" and the past forms take do-support like plain verbs.
_BARE_MODALS = {"future": "will", "can": "can", "must": "must", "should": "should", "may": "may"}
_BARE_MODALS["could"] = "could"
_TO_MODALS = {"want": ("want", "wants"), "wanted": ("want", "wanted"), "had": ("have", "had")}
# Particles that stay before a pronoun: look for it, but pick it up.
_PREPOSITIONS = ("for",)


@dataclass(frozen=True)
class Clause:
    """The content of a clause. `phrases` and `time` are (English, German), already inflected.

    mode: present, past, perfect, future or a modal (can, must, should, may, want, could, wanted,
    had). The time is an adverbial of time at the end or front of the clause; a frequency (often) is
    inside the clause. A predicate (old) needs the verb "be".
    """

    subject: Subject
    verb: Verb
    mode: str = "present"
    negated: bool = False
    accusative: Subject | None = None
    dative: Subject | None = None
    phrases: tuple[Pair, ...] = ()
    time: Pair | None = None
    frequency: Pair | None = None
    predicate: Pair | None = None

    def english(self, front: str = "subject") -> str:
        """The English statement or subordinate clause, without punctuation.

        front: the first element: "subject", "time", "place" (the last phrase) or "object".
        """
        auxiliary, verb = _english_verb(self.verb, self.mode, self.subject, self.negated)
        if self.negated:
            auxiliary = "cannot" if auxiliary == "can" else auxiliary + " not"
        frequency = self.frequency[0] if self.frequency else ""
        core = [self.subject.english(), auxiliary, frequency, verb]
        return _join(self._english_front(front), *core, *self._english_rest(front))

    def english_question(self, word: str = "") -> str:
        """The English question after an optional question word; "what" asks for the object."""
        auxiliary, verb = _english_verb(self.verb, self.mode, self.subject, True)
        frequency = self.frequency[0] if self.frequency else ""
        negation = "not" if self.negated else ""
        rest = self._english_rest("object" if word == "what" else "")
        return _join(word, auxiliary, self.subject.english(), negation, frequency, verb, *rest)

    def _english_front(self, front: str) -> str:
        if front == "time":
            return self.time[0]
        if front == "place":
            return self.phrases[-1][0]
        return self.accusative.english(is_object=True) if front == "object" else ""

    def _english_rest(self, front: str) -> list[str]:
        """Everything after the verb: objects, predicate, phrases, time."""
        rest = _english_objects(
            self.verb.particle, None if front == "object" else self.accusative, self.dative
        )
        rest.append(self.predicate[0] if self.predicate else "")
        phrases = self.phrases[:-1] if front == "place" else self.phrases
        rest.extend(english for english, _ in phrases)
        rest.append(self.time[0] if self.time and front != "time" else "")
        return rest

    def german(self, front: str = "subject") -> str:
        """The German statement with one element before the verb (see `english`)."""
        finite, closing, _ = german_verb(self.verb, self.mode, self.subject)
        subject = self.subject.german("nom")
        first = {"subject": subject, "time": self.time and self.time[1]}.get(front)
        if front == "place":
            first = self.phrases[-1][1]
        elif front == "object":
            first = self.accusative.german("acc")
        inverted = "" if front == "subject" else subject
        return _join(first, finite, inverted, *self._german_middle(front), closing)

    def german_question(self, word: str = "") -> str:
        """The German question: verb first, or second after a question word ("was": the object)."""
        finite, closing, _ = german_verb(self.verb, self.mode, self.subject)
        middle = self._german_middle("object" if word == "was" else "")
        return _join(word, finite, self.subject.german("nom"), *middle, closing)

    def german_after_clause(self) -> str:
        """The main clause after a subordinate clause, so it begins with the verb."""
        return self.german_question()

    def german_final(self) -> str:
        """The subordinate clause after its conjunction: the verb cluster comes last."""
        final = german_verb(self.verb, self.mode, self.subject)[2]
        return _join(self.subject.german("nom"), *self._german_middle("subject"), final)

    def _german_middle(self, front: str) -> list[str]:
        objects = [(self.dative, "dat"), (None if front == "object" else self.accusative, "acc")]
        present = [(phrase, case) for phrase, case in objects if phrase]
        pronouns = [(phrase, case) for phrase, case in present if phrase.pronoun]
        # Of two pronouns, the accusative comes first: gibt es ihm.
        pronouns.sort(key=lambda pair: pair[1])
        nouns = [(phrase, case) for phrase, case in present if not phrase.pronoun]
        absorbs = next((phrase for phrase, _ in reversed(nouns) if phrase.indefinite), None)
        negative = absorbs if self.negated else None
        nicht = "nicht" if self.negated and negative is None else ""
        spoken = [phrase.german(case, negative=phrase is negative) for phrase, case in nouns]
        time = self.time[1] if self.time and front != "time" else ""
        when = [time, self.frequency[1] if self.frequency else ""]
        order = [*spoken, *when, nicht] if nicht else [*when, *spoken]
        phrases = self.phrases[:-1] if front == "place" else self.phrases
        return [
            *(phrase.german(case) for phrase, case in pronouns),
            *order,
            *(german for _, german in phrases),
            self.predicate[1] if self.predicate else "",
        ]


def _join(*words: str | None) -> str:
    return " ".join(word for word in words if word)


def _english_objects(particle: str, direct: Subject | None, indirect: Subject | None) -> list[str]:
    """Objects with the particle: "him the book", "it to him", "up the child", "it up"."""
    accusative = direct.english(is_object=True) if direct else ""
    dative = indirect.english(is_object=True) if indirect else ""
    if direct and indirect:
        return [accusative, "to", dative] if direct.pronoun else [dative, accusative]
    if direct and direct.pronoun and particle not in _PREPOSITIONS:
        return [accusative, particle]
    return [particle, accusative or dative]


def _third_person(verb: str) -> str:
    if verb == "have":
        return "has"
    if verb.endswith(("s", "sh", "ch", "x", "o")):
        return verb + "es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


def _english_be(mode: str, subject: Subject) -> str:
    plural = subject.plural or subject.person == 2
    if mode == "past":
        return "were" if plural else "was"
    return "are" if plural else ("am" if subject.person == 1 else "is")


def _english_verb(verb: Verb, mode: str, subject: Subject, support: bool) -> tuple[str, str]:
    """(auxiliary, verb); with `support` (negation, question), a plain verb gets do or did."""
    singular = subject.person == 3 and not subject.plural
    if verb.english == "be":
        return _english_be(mode, subject), ""
    if mode == "perfect":
        return ("has" if singular else "have"), verb.english_perfect
    if mode in _BARE_MODALS:
        return _BARE_MODALS[mode], verb.english
    past = mode in ("past", "wanted", "had")
    if mode in _TO_MODALS:
        base, past_or_third = _TO_MODALS[mode]
        plain = past_or_third if past or singular else base
        tail = f" to {verb.english}"
    else:
        base, tail = verb.english, ""
        plain = verb.english_past if past else (_third_person(base) if singular else base)
    if support:
        return ("did" if past else "does" if singular else "do"), base + tail
    return "", plain + tail


def prepositional(english: str, german: str, case: str, phrase: Phrase | Pronoun) -> Pair:
    """A preposition with its phrase; German contracts it with a plain article (in dem: im)."""
    article, _, rest = phrase.german(case).partition(" ")
    contracted = _CONTRACTIONS.get((german, article))
    spoken = f"{contracted} {rest}" if contracted else f"{german} {phrase.german(case)}"
    return f"{english} {phrase.english(is_object=True)}", spoken


_CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("bei", "dem"): "beim",
}
