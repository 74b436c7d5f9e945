"""A bundle's pipeline is the recipes' scripts, byte for byte; bad settings are named."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from fairseq.data.data_utils import post_process
from hypothesis import given
from hypothesis import strategies as st
from toy_bundle import SENTENCES, write_data

from tests.support.scripts import run_script
from vaswani_plugin import __version__
from vaswani_plugin.errors import UserError
from vaswani_plugin.text.pipeline import WORD_BORDERS, Pipeline, cut
from vaswani_plugin.text.raw_text import remove_invisible
from vaswani_plugin.text.settings import (
    Settings,
    TextSettings,
    TreeSettings,
    read_settings,
    read_settings_file,
    settings_from,
)

REQUIRED = {"source_language": "en", "target_language": "de", "lowercase": False}
REQUIRED |= {"normalize_punctuation": False, "tokenizer": "moses", "subwords": "none"}
CODES = {"subwords": "subword-nmt", "codes": "codes"}
DASHES = {"normalize_punctuation": True, "aggressive_dash_splits": True, "escape": False}
ODD = ["", " \t ", "a\u2028b\u0085c\x0bd e", "NUL \x00 and \x1b bell \x07", "x" * 300, "\ufeffmark"]
ODD += ["\u201eGr\u00fc\u00df Gott\u201c \u2013 5,300.50 \u20ac at 10:30 a.m."]
ODD += ["\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 emoji"]
ODD += ["@-@ @@ a@@ b &amp; &lt;tag&gt; [x] | y"]
ODD += ["\u4e2d\u6587 \u0939\u093f\u0928\u094d\u0926\u0940 \u05d0\u05d1"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipeline")
    write_data(folder)
    return folder


def through(script: str, lines: list[str], *flags: object) -> list[str]:
    """The lines after a script of data-prep/."""
    text = "".join(f"{line}\n" for line in lines).encode()
    done = run_script(f"data-prep/{script}", *flags, "--workers", 1, stdin=text)
    assert done.returncode == 0, done.stderr
    return done.stdout.removesuffix("\n").split("\n")


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        ({"lowercase": True}, ["--lowercase", "--no-normalize"]),
        (DASHES, ["--aggressive", "--no-escape"]),
    ],
)
def test_encode_is_what_the_recipes_scripts_do(data, changes, flags):
    settings = settings_from(REQUIRED | changes | CODES)
    lines = SENTENCES + ODD
    assert any(remove_invisible(line) != line for line in lines)
    clean = list(map(remove_invisible, lines))  # published corpora keep theirs
    words = through("normalize_tokenize.py", clean, "--language", "en", *flags)
    expected = through("bpe.py", words, "apply", "--codes", data / "codes")
    pipeline = Pipeline(settings, data)
    assert [pipeline.encode(line) for line in lines] == expected


def test_a_vocabulary_limits_the_subwords(data):
    (data / "seen").write_text("t 9\nth 2\nthe 9\nb@@ 9\nbir 9\nd 9\n")
    limited = CODES | {"vocabulary": "seen", "vocabulary_threshold": 3}
    lines = ["the old bird", "over the sea"]
    flags = ("--codes", data / "codes", "--vocabulary", data / "seen", "--vocabulary-threshold", 3)
    expected = through("bpe.py", lines, "apply", *flags)
    pipeline = Pipeline(settings_from(REQUIRED | limited), data)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(pipeline.encode, lines * 50)) == expected * 50
    unlimited = [Pipeline(settings_from(REQUIRED | CODES), data).encode(line) for line in lines]
    # The target side is not limited: the vocabulary is that of the source language.
    assert expected != unlimited == [pipeline.of_target().encode(line) for line in lines]


def test_decode_is_what_the_recipes_scripts_do(data):
    pipeline = Pipeline(settings_from(REQUIRED | CODES), data)
    lines = [pipeline.encode(line) for line in SENTENCES + ODD]
    lines += ["a@@ b@@", "@@ x", "<unk> &quot; <unk> &quot; @-@ y", "@@ @@ @@", "don &apos;t"]
    words = [post_process(line, "@@ ") for line in lines]
    expected = through("normalize_tokenize.py", words, "--language", "de", "--detokenize")
    assert [pipeline.decode(line) for line in lines] == expected


def test_text_without_rules(tmp_path):
    """Special symbols in it are unknown; a translation has no line break."""
    plain = Pipeline(Settings(**REQUIRED | {"tokenizer": "none"}), tmp_path)
    assert plain.encode("a <s>\tb<s> </s> < s >") == "a <unk> b<s> <unk> < s >"
    assert plain.decode("a\u2028b\x85c\nd\re") == "a b c d e"


KINDS = [settings_from(REQUIRED | {"tokenizer": "none"} | codes) for codes in ({}, CODES)]
KINDS += [TextSettings("words"), TextSettings("characters"), TextSettings("bpe", "codes", 9, 9)]
KINDS += [TreeSettings(coding, True, True, "codes") for coding in ("words", "bpe")]


@pytest.mark.parametrize("settings", KINDS, ids=range(len(KINDS)))
def test_a_letter_with_its_accent_is_one_character(data, settings):
    encode = Pipeline(settings, data).encode
    assert encode("Scho\u0308ne cafe\u0301s") == encode("Sch\u00f6ne caf\u00e9s")


def write_settings(folder, content) -> None:
    """preprocessing.json and, empty, the files that any bundle has."""
    (folder / "preprocessing.json").write_text(json.dumps(content))
    for name in ("model.pt", "dict.en.txt", "dict.de.txt"):
        (folder / name).touch()


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"version": 2}, "its version is 2, this program reads 1"),
        ({"made_by": "99.0.1", "new": 1}, "by vaswani_plugin 99.0.1, this is"),
        ({"made_by": [1]}, "by vaswani_plugin [1], this is"),
        ({"tokenizer": ...}, "tokenizer: needed, as in tokenizer=VALUE"),
        ({"tokenizer": "mose"}, "tokenizer is 'mose': must be moses or none"),
        ({"beam": True}, "beam is True: must be a number or null"),
        ({"beam": 0}, "beam is 0; it must be at least 1"),
        ({"longest_trained": -3}, "longest_trained is -3; it must be at least 1"),
        ({"subwords": "subword-nmt"}, "subwords is subword-nmt, codes None"),
        ({"subwords": "subword-nmt", "codes": "gone"}, "gone does not exist"),
    ],
)
def test_bad_settings_are_named(tmp_path, changes, part):
    settings = {"version": 1, **REQUIRED, **changes}
    write_settings(tmp_path, {key: settings[key] for key in settings if settings[key] is not ...})
    with pytest.raises(UserError, match=re.escape(part)) as caught:
        read_settings(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_settings_of_text_are_written_and_read(tmp_path):
    settings = TextSettings("bpe", "codes", article_tokens=30, summary_tokens=10, beam=4)
    assert settings.files() == ["model.pt", "dict.txt", "codes"]
    patched = settings.to_json().replace(__version__, f"{__version__}.post1")
    (tmp_path / "preprocessing.json").write_text(patched)
    assert json.loads(settings.to_json())["made_by"] == __version__
    for name in settings.files():
        (tmp_path / name).touch()
    assert read_settings(tmp_path) == settings
    (tmp_path / "dict.txt").unlink()
    with pytest.raises(UserError, match="dict.txt does not exist: the bundle is incomplete"):
        read_settings(tmp_path)


def test_a_folder_that_is_no_bundle(tmp_path):
    with pytest.raises(UserError, match="missing: no such folder"):
        read_settings(tmp_path / "missing")
    with pytest.raises(UserError, match="is not a bundle; make one"):
        read_settings(tmp_path)
    (tmp_path / "model").mkdir()
    write_settings(tmp_path / "model", {})
    with pytest.raises(UserError, match="is not a bundle; give .*/model, which is one"):
        read_settings(tmp_path)


@pytest.mark.parametrize("key", ["codes", "vocabulary", "source_language"])
def test_a_bundle_names_no_file_but_its_own(tmp_path, key):
    settings = REQUIRED | {"version": 1, "subwords": "subword-nmt", "codes": "codes"}
    settings |= {"vocabulary": "vocabulary", "vocabulary_threshold": 1}
    for name in ("x/../../secret", "/etc/passwd", "x/.."):
        write_settings(tmp_path, settings | {key: name})
        with pytest.raises(UserError, match="preprocessing.json: names"):
            read_settings_file(tmp_path / "preprocessing.json")


@pytest.mark.parametrize(
    "changes, line, expected",
    [
        # In German a number before a full stop is an ordinal, and the full stop stays outside.
        ({}, "am 3. Mai", "am 3. Mai"),
        ({"tokenizer": "none", "normalize_punctuation": True}, 'Sie sagt "Ja".', 'Sie sagt "Ja".'),
    ],
)
def test_the_targets_rules_are_those_of_its_language(tmp_path, changes, line, expected):
    own = Pipeline(Settings(**REQUIRED | changes), tmp_path)
    assert own.of_target().encode(line) == expected != own.encode(line)


@given(st.lists(st.sampled_from(["a", "b@@", ".", ",", "c"]), max_size=60), st.integers(1, 9))
def test_cuts_lose_nothing_and_spare_words(tokens, longest):
    pieces = list(cut(tokens, longest, WORD_BORDERS["subword-nmt"]))
    assert [token for piece in pieces for token in piece] == tokens
    assert all(len(piece) <= longest for piece in pieces)
    assert len(tokens) <= longest or min(map(len, pieces)) >= longest // 6, "a sliver"
    for piece, following in pairwise(pieces):
        near = [*piece, *following][len(piece) - longest // 6 : len(piece) + longest // 6]
        for end, worse in ((".", ",abc"), (",", "abc"), ("a", "b")):
            assert end not in near[:-1] or piece[-1][0] not in worse, "a better place is near"


@pytest.mark.parametrize(
    ("tokens", "longest", "stop", "expected"),
    [
        (9, 5, None, [3, 3, 3]),  # pieces of 3/4 of the longest or less
        (18, 8, None, [6, 6, 6]),
        (19, 8, None, [5, 5, 4, 5]),
        (20, 16, 4, [10, 10]),  # an end counts from half to one and a half times the even share
        (20, 16, 5, [5, 15]),
        (20, 16, 15, [15, 5]),
        (20, 16, 16, [10, 10]),
        (24, 16, 16, [16, 8]),  # the longest is allowed
        (24, 16, 17, [12, 12]),
        (4, 4, None, [4]),
    ],
)
def test_sizes_of_pieces(tokens, longest, stop, expected):
    line = ["." if place == stop else "m" for place in range(1, tokens + 1)]
    assert list(map(len, cut(line, longest, WORD_BORDERS["none"]))) == expected


@pytest.mark.parametrize(
    ("tokens", "longest", "expected"),
    [
        ("\u2581a b \u2581c d \u2581e f", 3, "\u2581a b|\u2581c d|\u2581e f"),
        ("\u2581a . b \u2581c . \u2581d", 4, "\u2581a . b|\u2581c . \u2581d"),
        ("\u2581a , \u2581c d \u2581e f", 5, "\u2581a ,|\u2581c d \u2581e f"),
        ("\u2581a , \u2581c ; \u2581e f", 5, "\u2581a , \u2581c ;|\u2581e f"),
        ("\u2581a 3 , 000 \u2581e f", 5, "\u2581a 3 , 000|\u2581e f"),
        ("我 们 ， 他 们 好", 5, "我 们 ，|他 们 好"),
    ],
)
def test_where_a_sentence_of_word_pieces_is_cut(tokens, longest, expected):
    pieces = cut(tokens.split(), longest, WORD_BORDERS["sentencepiece"])
    assert "|".join(map(" ".join, pieces)) == expected
