"""The words of the toy corpus: English-German nouns, adjectives, verbs and compounds as tables.

A row holds only forms that no rule gives. ``|`` separates English and German. No English form has
two German forms, because each sentence must have exactly one translation. So verbs whose English
past equals the present (read, put, cut) are left out.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Noun:
    """A countable noun; `gender` is "m", "f" or "n"; `weak` marks the n-declension (der Junge)."""

    english: str
    english_plural: str
    gender: str
    german: str
    german_plural: str
    weak: bool = False


@dataclass(frozen=True)
class Adjective:
    """An adjective; `german_stem` takes endings (teuer: teur-), comparatives are whole words."""

    english: str
    german: str
    german_stem: str
    english_comparative: str
    german_comparative: str


@dataclass(frozen=True)
class Verb:
    """A verb. `particle` follows the English verb (pick up); German `prefix` is separable.

    `you`, `he` and `past` are German forms without the prefix; `perfect` is the whole participle.
    """

    english: str
    english_past: str
    english_perfect: str
    particle: str
    prefix: str
    german: str
    you: str
    he: str
    past: str
    perfect: str
    auxiliary: str

    @property
    def infinitive(self) -> str:
        """The whole German infinitive, prefix included."""
        return self.prefix + self.german


def _nouns(table: str) -> dict[str, Noun]:
    nouns = {}
    for row in table.strip().splitlines():
        english, german = row.split("|")
        singular, plural = english.split()
        gender, german_singular, german_plural, *weak = german.split()
        nouns[singular] = Noun(
            singular, plural, gender, german_singular, german_plural, weak == ["weak"]
        )
    return nouns


def _adjectives(table: str) -> dict[str, Adjective]:
    rows = (row.replace("|", " ").split() for row in table.strip().splitlines())
    return {row[0]: Adjective(row[0], row[2], row[3], row[1], row[4]) for row in rows}


def _verbs(table: str) -> dict[str, Verb]:
    verbs = {}
    for row in table.strip().splitlines():
        english, german = row.split("|")
        base, past, perfect, *particle = english.split()
        infinitive, you, he, german_past, participle, *auxiliary = german.split()
        prefix, _, stem = infinitive.rpartition("-")
        name = " ".join([base, *particle])
        verbs[name] = Verb(
            *(base, past, perfect, " ".join(particle), prefix, stem, you, he, german_past),
            *(participle, auxiliary[0] if auxiliary else "haben"),
        )
    return verbs


NOUNS = {
    "person": _nouns("""
man men | m Mann Männer
woman women | f Frau Frauen
child children | n Kind Kinder
boy boys | m Junge Jungen weak
girl girls | n Mädchen Mädchen
teacher teachers | m Lehrer Lehrer
doctor doctors | m Arzt Ärzte
neighbor neighbors | m Nachbar Nachbarn weak
student students | m Student Studenten weak
friend friends | m Freund Freunde
mother mothers | f Mutter Mütter
father fathers | m Vater Väter
sister sisters | f Schwester Schwestern
brother brothers | m Bruder Brüder
aunt aunts | f Tante Tanten
farmer farmers | m Bauer Bauern weak
"""),
    "animal": _nouns("""
dog dogs | m Hund Hunde
cat cats | f Katze Katzen
bird birds | m Vogel Vögel
horse horses | n Pferd Pferde
"""),
    "food": _nouns("""
apple apples | m Apfel Äpfel
egg eggs | n Ei Eier
pear pears | f Birne Birnen
cake cakes | m Kuchen Kuchen
soup soups | f Suppe Suppen
potato potatoes | f Kartoffel Kartoffeln
"""),
    "drink": _nouns("""
coffee coffees | m Kaffee Kaffees
tea teas | m Tee Tees
juice juices | m Saft Säfte
beer beers | n Bier Biere
"""),
    "thing": _nouns("""
book books | n Buch Bücher
letter letters | m Brief Briefe
picture pictures | n Bild Bilder
flower flowers | f Blume Blumen
newspaper newspapers | f Zeitung Zeitungen
ball balls | m Ball Bälle
hat hats | m Hut Hüte
gift gifts | n Geschenk Geschenke
knife knives | n Messer Messer
"""),
    "machine": _nouns("""
car cars | n Auto Autos
bicycle bicycles | n Fahrrad Fahrräder
radio radios | n Radio Radios
"""),
    "head": _nouns("""
table tables | m Tisch Tische
chair chairs | m Stuhl Stühle
lamp lamps | f Lampe Lampen
door doors | f Tür Türen
window windows | n Fenster Fenster
clock clocks | f Uhr Uhren
cupboard cupboards | m Schrank Schränke
"""),
    "garment": _nouns("""
coat coats | m Mantel Mäntel
shoe shoes | m Schuh Schuhe
shirt shirts | n Hemd Hemden
jacket jackets | f Jacke Jacken
"""),
    "place": _nouns("""
garden gardens | m Garten Gärten
kitchen kitchens | f Küche Küchen
school schools | f Schule Schulen
city cities | f Stadt Städte
village villages | n Dorf Dörfer
forest forests | m Wald Wälder
park parks | m Park Parks
museum museums | n Museum Museen
library libraries | f Bibliothek Bibliotheken
church churches | f Kirche Kirchen
hotel hotels | n Hotel Hotels
office offices | n Büro Büros
house houses | n Haus Häuser
"""),
}

# English modifier: German first part with its linking element, for the heads of these classes.
COMPOUND_PARTS = {
    "head": {
        "garden": "Garten",
        "kitchen": "Küchen",
        "school": "Schul",
        "museum": "Museums",
        "library": "Bibliotheks",
        "church": "Kirchen",
        "hotel": "Hotel",
        "office": "Büro",
        "bathroom": "Badezimmer",
        "cellar": "Keller",
        "work": "Arbeits",
        "station": "Bahnhofs",
    },
    "garment": {
        "summer": "Sommer",
        "winter": "Winter",
        "work": "Arbeits",
        "school": "Schul",
        "children's": "Kinder",
        "women's": "Damen",
    },
}


def compound(modifier: str, part: str, head: Noun) -> Noun:
    """The compound of an English `modifier`, its German form `part` and a head noun."""
    return Noun(
        f"{modifier} {head.english}",
        f"{modifier} {head.english_plural}",
        head.gender,
        part + head.german.lower(),
        part + head.german_plural.lower(),
    )


def _compounds() -> dict[str, Noun]:
    made = (
        compound(modifier, part, head)
        for kind, parts in COMPOUND_PARTS.items()
        for modifier, part in parts.items()
        for head in NOUNS[kind].values()
    )
    return {noun.english: noun for noun in made}


NOUNS["compound"] = _compounds()

# English, comparative | German, stem before endings, comparative
ADJECTIVES = _adjectives("""
old older | alt alt älter
young younger | jung jung jünger
new newer | neu neu neuer
big bigger | groß groß größer
small smaller | klein klein kleiner
beautiful - | schön schön schöner
cheap cheaper | billig billig billiger
expensive - | teuer teur teurer
heavy heavier | schwer schwer schwerer
red - | rot rot -
blue - | blau blau -
black - | schwarz schwarz -
white - | weiß weiß -
happy happier | glücklich glücklich glücklicher
tired - | müde müd -
friendly friendlier | freundlich freundlich freundlicher
clever cleverer | klug klug klüger
strong stronger | stark stark stärker
rich richer | reich reich reicher
fresh fresher | frisch frisch frischer
good better | gut gut besser
famous - | berühmt berühmt -
dark darker | dunkel dunkl dunkler
""")

ADJECTIVES_OF = {
    "person": "old young big small happy tired friendly clever strong rich famous good",
    "animal": "old young big small tired black white beautiful strong friendly",
    "food": "big small cheap expensive fresh good",
    "drink": "big small cheap expensive good",
    "thing": "old new big small beautiful cheap expensive heavy red blue black white",
    "place": "old new big small beautiful famous dark",
}
for _kind in ("machine", "head", "garment", "compound"):
    ADJECTIVES_OF[_kind] = ADJECTIVES_OF["thing"]

# English base, past, participle, particle | infinitive with prefix-, du, er, past, participle, aux
VERBS = _verbs("""
sleep slept slept | schlafen schläfst schläft schlief geschlafen
work worked worked | arbeiten arbeitest arbeitet arbeitete gearbeitet
dance danced danced | tanzen tanzt tanzt tanzte getanzt
sing sang sung | singen singst singt sang gesungen
play played played | spielen spielst spielt spielte gespielt
wait waited waited | warten wartest wartet wartete gewartet
wake woke woken up | auf-wachen wachst wacht wachte aufgewacht sein
shop shopped shopped | ein-kaufen kaufst kauft kaufte eingekauft
fall fell fallen asleep | ein-schlafen schläfst schläft schlief eingeschlafen sein
arrive arrived arrived | an-kommen kommst kommt kam angekommen sein
go went gone | gehen gehst geht ging gegangen sein
run ran run | laufen läufst läuft lief gelaufen sein
drive drove driven | fahren fährst fährt fuhr gefahren sein
see saw seen | sehen siehst sieht sah gesehen
buy bought bought | kaufen kaufst kauft kaufte gekauft
sell sold sold | verkaufen verkaufst verkauft verkaufte verkauft
find found found | finden findest findet fand gefunden
look looked looked for | suchen suchst sucht suchte gesucht
need needed needed | brauchen brauchst braucht brauchte gebraucht
have had had | haben hast hat hatte gehabt
forget forgot forgotten | vergessen vergisst vergisst vergaß vergessen
visit visited visited | besuchen besuchst besucht besuchte besucht
ask asked asked | fragen fragst fragt fragte gefragt
understand understood understood | verstehen verstehst versteht verstand verstanden
love loved loved | lieben liebst liebt liebte geliebt
eat ate eaten | essen isst isst aß gegessen
drink drank drunk | trinken trinkst trinkt trank getrunken
write wrote written | schreiben schreibst schreibt schrieb geschrieben
repair repaired repaired | reparieren reparierst repariert reparierte repariert
carry carried carried | tragen trägst trägt trug getragen
call called called | an-rufen rufst ruft rief angerufen
invite invited invited | ein-laden lädst lädt lud eingeladen
pick picked picked up | ab-holen holst holt holte abgeholt
open opened opened | auf-machen machst macht machte aufgemacht
close closed closed | zu-machen machst macht machte zugemacht
throw threw thrown away | weg-werfen wirfst wirft warf weggeworfen
try tried tried on | an-probieren probierst probiert probierte anprobiert
bring brought brought along | mit-bringen bringst bringt brachte mitgebracht
help helped helped | helfen hilfst hilft half geholfen
thank thanked thanked | danken dankst dankt dankte gedankt
follow followed followed | folgen folgst folgt folgte gefolgt sein
answer answered answered | antworten antwortest antwortet antwortete geantwortet
give gave given | geben gibst gibt gab gegeben
show showed shown | zeigen zeigst zeigt zeigte gezeigt
send sent sent | schicken schickst schickt schickte geschickt
know knew known | wissen weißt weiß wusste gewusst
say said said | sagen sagst sagt sagte gesagt
believe believed believed | glauben glaubst glaubt glaubte geglaubt
hope hoped hoped | hoffen hoffst hofft hoffte gehofft
cost cost cost | kosten kostest kostet kostete gekostet
be was been | sein bist ist war gewesen sein
""")

INTRANSITIVE = tuple("sleep work dance sing play wait shop arrive".split()) + (
    "wake up",
    "fall asleep",
)
MOTION = "go run drive"
DATIVE = "help thank follow answer"
DITRANSITIVE = "give show send"
REPORTING = "know say believe hope"
GOODS = "thing machine head garment compound food"
# Verb: classes of its accusative object.
TRANSITIVE = {
    "see": "person animal place " + GOODS,
    "buy": "animal " + GOODS,
    "sell": GOODS,
    "find": GOODS + " animal",
    "look for": "person animal " + GOODS,
    "need": GOODS,
    "have": "animal machine thing garment compound",
    "forget": "thing garment",
    "visit": "person place",
    "ask": "person",
    "understand": "person",
    "love": "person animal",
    "eat": "food",
    "drink": "drink",
    "repair": "machine head compound",
    "carry": "thing head compound food",
    "call": "person",
    "invite": "person",
    "pick up": "person",
    "throw away": GOODS,
    "try on": "garment",
    "bring along": "animal thing food garment",
}
# Verb: its objects, for verbs that take only a few nouns.
CHOOSY = {"write": ["letter", "book"], "open": ["door", "window"], "close": ["door", "window"]}
