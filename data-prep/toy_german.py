"""German (and the little English) inflection of the toy corpus: phrases, verb forms, numbers.

Persons are counted 1 to 3; cases are "nom", "acc" and "dat".
"""

from dataclasses import dataclass

from toy_lexicon import Adjective, Noun, Verb

_UNITS = "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()
_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
_ENGLISH_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
_ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ENGLISH_ORDINALS = {1: "first", 2: "second", 3: "third", 5: "fifth", 8: "eighth", 9: "ninth"}


def german_number(value: int) -> str:
    """The cardinal 2 to 99 in German words (21: einundzwanzig), 1 as before a noun (ein)."""
    if value == 1:
        return "ein"
    if value < len(_UNITS):
        return _UNITS[value]
    if value < 20:
        return {16: "sech", 17: "sieb"}.get(value, _UNITS[value - 10]) + "zehn"
    tens, unit = _TENS[value // 10 - 2], value % 10
    return f"{german_number(unit)}und{tens}" if unit else tens


def german_ordinal(value: int) -> str:
    """The ordinal 1 to 31 in the dative after "am" (3: dritten)."""
    special = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}
    ending = "t" if value < 20 else "st"
    return special.get(value, german_number(value) + ending) + "en"


def english_number(value: int) -> str:
    """The cardinal 1 to 99 in English words (21: twenty-one)."""
    if value < len(_ENGLISH_UNITS):
        return _ENGLISH_UNITS[value]
    tens, unit = _ENGLISH_TENS[value // 10 - 2], value % 10
    return f"{tens}-{_ENGLISH_UNITS[unit]}" if unit else tens


def english_ordinal(value: int) -> str:
    """The ordinal 1 to 31 in English words (21: twenty-first)."""
    if value > 20 and value % 10:
        return f"{_ENGLISH_TENS[value // 10 - 2]}-{english_ordinal(value % 10)}"
    if value in (20, 30):
        return _ENGLISH_TENS[value // 10 - 2][:-1] + "ieth"
    return _ENGLISH_ORDINALS.get(value, _twelfth(_ENGLISH_UNITS[value]))


def _twelfth(cardinal: str) -> str:
    return (cardinal[:-2] + "f" if cardinal == "twelve" else cardinal) + "th"


# Endings by gender ("p" is the plural of all three) in the order nom, acc, dat.
_CASES = ("nom", "acc", "dat")
_DER = {"m": "der den dem", "f": "die die der", "n": "das das dem", "p": "die die den"}
_DIES = {"m": "er en em", "f": "e e er", "n": "es es em", "p": "e e en"}
_EIN = {"m": "- en em", "f": "e e er", "n": "- - em", "p": "e e en"}
_WEAK = {"m": "e en en", "f": "e e en", "n": "e e en", "p": "en en en"}
_MIXED = {"m": "er en en", "f": "e e en", "n": "es es en", "p": "en en en"}
_STRONG_PLURAL = {"p": "e e en"}
_EIN_WORDS = {
    "a": "ein",
    "no": "kein",
    "my": "mein",
    "your": "dein",
    "his": "sein",
    "her": "ihr",
    "our": "unser",
    "their": "ihr",
}
POSSESSIVES = ("my", "your", "his", "her", "our", "their")


def _ending(table: dict[str, str], gender: str, case: str) -> str:
    return table[gender].split()[_CASES.index(case)].strip("-")


@dataclass(frozen=True)
class Phrase:
    """A third-person noun phrase; `determiner` is an English word or "" with a `count` >= 2."""

    determiner: str
    adjectives: tuple[Adjective, ...]
    noun: Noun
    plural: bool
    count: int = 0
    person: int = 3
    pronoun: bool = False

    @property
    def indefinite(self) -> bool:
        """Whether a negated clause turns this phrase's article into "kein"."""
        return self.determiner == "a"

    def english(self, is_object: bool = False) -> str:
        """The English phrase; objects have the same form as subjects."""
        noun = self.noun.english_plural if self.plural else self.noun.english
        rest = [*(adjective.english for adjective in self.adjectives), noun]
        determiner = self.determiner
        if self.count:
            determiner = english_number(self.count)
        elif determiner == "a":
            determiner = "" if self.plural else ("an" if rest[0][0] in "aeiou" else "a")
        elif determiner == "this" and self.plural:
            determiner = "these"
        return " ".join([determiner, *rest] if determiner else rest)

    def german(self, case: str, negative: bool = False) -> str:
        """The German phrase in `case`; `negative` puts "kein" for the indefinite article."""
        gender = "p" if self.plural else self.noun.gender
        article = "no" if negative and self.indefinite else self.determiner
        determiner, endings = self._determiner(article, gender, case)
        ending = _ending(endings, gender, case)
        adjectives = [adjective.german_stem + ending for adjective in self.adjectives]
        words = [determiner, *adjectives, noun_form(self.noun, self.plural, case)]
        return " ".join(word for word in words if word)

    def _determiner(self, article: str, gender: str, case: str) -> tuple[str, dict[str, str]]:
        if self.count:
            return german_number(self.count), _STRONG_PLURAL
        if article == "the":
            return _ending(_DER, gender, case), _WEAK
        if article == "this":
            return "dies" + _ending(_DIES, gender, case), _WEAK
        if article == "a" and self.plural:
            return "", _STRONG_PLURAL
        stem, ending = _EIN_WORDS[article], _ending(_EIN, gender, case)
        # Written German keeps the e of unser: unsere, unseren, unserem.
        return stem + ending, _MIXED


def noun_form(noun: Noun, plural: bool, case: str) -> str:
    """The German noun in number and case: -n in the dative plural, -(e)n in the weak declension."""
    if plural:
        needs_n = case == "dat" and noun.german_plural[-1] not in "ns"
        return noun.german_plural + ("n" if needs_n else "")
    return noun.german_plural if noun.weak and case != "nom" else noun.german


@dataclass(frozen=True)
class Pronoun:
    """A personal pronoun, English and German, with the attributes of `Phrase` that clauses use."""

    subject: str
    objective: str
    forms: tuple[str, str, str]
    person: int
    plural: bool
    pronoun: bool = True
    indefinite: bool = False
    determiner: str = ""
    count: int = 0

    def english(self, is_object: bool = False) -> str:
        """The English subject or object form."""
        return self.objective if is_object else self.subject

    def german(self, case: str, negative: bool = False) -> str:
        """The German form in `case`; a pronoun has no negative."""
        return self.forms[_CASES.index(case)]


PRONOUNS = (
    Pronoun("I", "me", ("ich", "mich", "mir"), 1, False),
    Pronoun("you", "you", ("du", "dich", "dir"), 2, False),
    Pronoun("he", "him", ("er", "ihn", "ihm"), 3, False),
    Pronoun("she", "her", ("sie", "sie", "ihr"), 3, False),
    Pronoun("we", "us", ("wir", "uns", "uns"), 1, True),
    Pronoun("they", "them", ("sie", "sie", "ihnen"), 3, True),
)
IT = Pronoun("it", "it", ("es", "es", "ihm"), 3, False)
WHO = Pronoun("who", "whom", ("wer", "wen", "wem"), 3, False)

Subject = Phrase | Pronoun

# English name: (present of ich/er, du; plural) of the verbs that take a bare infinitive.
_MODALS = {
    "can": ("kann", "kannst", "können"),
    "must": ("muss", "musst", "müssen"),
    "should": ("sollte", "solltest", "sollten"),
    "may": ("darf", "darfst", "dürfen"),
    "want": ("will", "willst", "wollen"),
    "could": ("konnte", "konntest", "konnten"),
    "wanted": ("wollte", "wolltest", "wollten"),
    "had": ("musste", "musstest", "mussten"),
}
_AUXILIARIES = {
    "haben": ("habe", "hast", "hat", "haben"),
    "sein": ("bin", "bist", "ist", "sind"),
    "werden": ("werde", "wirst", "wird", "werden"),
}


def _by_person(subject: Subject, first: str, second: str, third: str, plural: str) -> str:
    if subject.plural:
        return plural
    return (first, second, third)[subject.person - 1]


def _present(verb: Verb, subject: Subject) -> str:
    if verb.german == "sein":
        return _by_person(subject, *_AUXILIARIES["sein"])
    first = "weiß" if verb.german == "wissen" else verb.german.removesuffix("en") + "e"
    return _by_person(subject, first, verb.you, verb.he, verb.german)


def _past(verb: Verb, subject: Subject) -> str:
    past = verb.past
    if past.endswith("te"):
        return _by_person(subject, past, past + "st", past, past + "n")
    second = past + ("est" if past[-1] in "dtsß" else "st")
    return _by_person(subject, past, second, past, past + "en")


def german_verb(verb: Verb, mode: str, subject: Subject) -> tuple[str, str, str]:
    """The German verb of a clause.

    Returns: (finite, closing, final). finite: the verb in second place. closing: the end of such a
    clause (prefix, participle or infinitive; may be ""). final: all verbs of a verb-final clause.
    """
    if mode in ("present", "past"):
        finite = _present(verb, subject) if mode == "present" else _past(verb, subject)
        return finite, verb.prefix, verb.prefix + finite
    if mode == "perfect":
        finite, closing = _by_person(subject, *_AUXILIARIES[verb.auxiliary]), verb.perfect
    elif mode == "future":
        finite, closing = _by_person(subject, *_AUXILIARIES["werden"]), verb.infinitive
    else:
        singular, second, plural = _MODALS[mode]
        finite = _by_person(subject, singular, second, singular, plural)
        closing = verb.infinitive
    return finite, closing, f"{closing} {finite}"
