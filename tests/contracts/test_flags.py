"""The parsers of all commands: help, unknown flags, and any value of any type of flag."""

import argparse
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.commands import vaswani
from vaswani_plugin.cli.__main__ import COMMANDS, command_parser
from vaswani_plugin.cli.translation import addresses

PARSERS = {name: command_parser(name) for name in COMMANDS}
ACTIONS = [
    (name, action)
    for name, parser in PARSERS.items()
    for action in parser._actions
    if action.option_strings and action.nargs != 0
]
WHOLE, MOST = (1 - 10**20, 10**20 - 1), math.nextafter(1e20, 0)
RANGES = {"whole": WHOLE, "positive_int": (1, WHOLE[1]), "non_negative_int": (0, WHOLE[1])}
RANGES |= {"size": (1, 10**6), "seed": WHOLE, "threads": (1, 1024), "finite": (-MOST, MOST)}
RANGES |= {"non_negative": (0, MOST), "positive": (5e-324, MOST), "fraction": (0, 1)}
RANGES |= {"probability": (5e-324, 1), "lenpen": (-10, 10), "temperature": (1e-4, 1e4)}
"""Least and greatest value of each type of flags; the first six are of whole numbers."""
TYPES = {action.type for _, action in ACTIONS} - {str, Path, addresses}
NUMBERS = st.one_of(
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(
        ["0", "1.0", "9" * 20, "1e20", "1e400", "nan", "-inf", "", " ", "0x1", "1_0", "\u0665"]
    ),
    st.text(max_size=5).filter(lambda text: text != "--"),  # argparse drops it, even after "="
)


def test_the_list_of_commands_says_what_each_does():
    done = vaswani("--help")
    assert (done.code, done.err) == (0, "")
    rows = dict(re.findall(r"^  ([\w-]+) +(\S.*)$", done.out, re.MULTILINE))
    assert list(rows) == list(COMMANDS)
    for name, said in rows.items():
        assert f"{said[:1].upper()}{said[1:]}." in PARSERS[name].format_help().replace("\n", " ")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_an_example_that_parses(name):
    done = vaswani(name, "--help")
    assert done.code == 0 and done.out.startswith(f"usage: vaswani {name} ")
    _, example = done.out.split("\nexample:\n  ")
    example = (re.search(r"\$\((.*)\)", example) or ["", example])[1]  # ours in another's
    words = re.findall(r'"[^"]*"|[^\s"\\]+', example.partition("<")[0])
    assert words[:2] == ["vaswani", name]
    PARSERS[name].parse_args([word.strip('"') for word in words[2:]])
    assert all(action.help for action in PARSERS[name]._actions), "a flag without a word on it"


@pytest.mark.parametrize("flag", ["--no-such-flag", "--forma"])
def test_unknown_and_shortened_flags(flag):
    """A shortened flag would change its meaning with the next one that begins so."""
    done = vaswani("average", "--inputs", "a.pt", "--output", "b.pt", flag, "json")
    assert done.code == 2 and flag in done.err.splitlines()[-1]


@pytest.mark.parametrize("kind", sorted(TYPES, key=lambda kind: kind.__name__))
@given(text=NUMBERS)
def test_any_value_of_a_typed_flag(kind, text):
    """It is taken for the number that it is, or refused in a line that says what it must be."""
    is_whole, (least, most) = kind.__name__ in list(RANGES)[:6], RANGES[kind.__name__]
    try:
        expected = int(text) if is_whole else float(text)
    except ValueError:
        expected = math.nan
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--flag", type=kind)
    if math.isfinite(expected) and least <= expected <= most:
        assert parser.parse_args([f"--flag={text}"]).flag == expected
    else:
        with pytest.raises(argparse.ArgumentError, match="argument --flag: .*must be"):
            parser.parse_args([f"--flag={text}"])


def test_a_mistyped_command_is_guessed():
    done = vaswani("avrage")
    assert done.code == 2 and done.err.count("\n") == 1
    assert "unknown command 'avrage': did you mean 'average'?" in done.err
    assert vaswani().code == 2
