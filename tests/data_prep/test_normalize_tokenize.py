"""normalize_tokenize.py: Moses' rules, a line for a line, the same for any number of workers."""

import pytest

from tests.support.scripts import assert_one_line_error, run_script


def process(text: str, *args: object) -> str:
    """Pipes text through the script."""
    done = run_script("data-prep/normalize_tokenize.py", *args, stdin=text.encode("utf-8"))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("language", "flags", "raw", "expected"),
    [
        # Expected by the rules of tokenizer.perl and normalize-punctuation.perl.
        ("en", (), "A man's well-known hat, 5,300 \u201ccups\u201d.",
         "A man &apos;s well-known hat , 5,300 &quot; cups . &quot;"),
        ("en", ("--no-escape",), "It's", "It 's"),
        ("fr", (), "l'eau d'\u00c9vian", "l&apos; eau d&apos; \u00c9vian"),
        ("de", ("--lowercase",), "\u00dcber B\u00e4ume, dort", "\u00fcber b\u00e4ume , dort"),
        ("de", (), "Bis ca. 10 Uhr.", "Bis ca. 10 Uhr ."),
        ("de", ("--aggressive",), "rot-wei\u00df", "rot @-@ wei\u00df"),
        ("en", ("--no-normalize",), "\u201ca\u201d", "\u201c a \u201d"),
        ("en", ("--no-tokenize",), "\u201ca\u201d, b", '"a," b'),
    ],
)  # fmt: skip
def test_rules(language, flags, raw, expected):
    assert process(raw + "\n", "--language", language, *flags) == expected + "\n"


def test_every_line_gives_one_line_for_any_number_of_workers(tmp_path):
    lines = [f"Line {i}, it's\u2028 {'x' * (i % 7)}\u0085!" for i in range(5001)]
    lines[10] = ""
    (tmp_path / "a").write_bytes("".join(line + "\n" for line in lines).encode())
    outputs = []
    for workers in (1, 3):
        out = tmp_path / f"out{workers}"
        done = run_script(
            "data-prep/normalize_tokenize.py",
            *("--language", "en", "--input", tmp_path / "a", "--output", out),
            *("--workers", workers),
        )
        assert done.returncode == 0, done.stderr
        outputs.append(out.read_bytes())
    assert outputs[0] == outputs[1]
    result = outputs[0].decode().removesuffix("\n").split("\n")
    assert len(result) == len(lines)
    assert result[10] == ""
    assert all(
        line.startswith(f"Line {i} , it &apos;s") for i, line in enumerate(result) if i != 10
    )


@pytest.mark.parametrize(
    ("language", "raw"),
    [
        ("en", "Hello, my friend's (5.30): a & b!\n"),
        ("de", "Hallo, mein Freund (5.30): a & b!\n"),
        ("fr", "Bonjour, l'ami (5.30) : a & b !\n"),
    ],
)
def test_detokenize_undoes_tokenize(language, raw):
    tokens = process(raw, "--language", language, "--no-normalize")
    assert "&amp;" in tokens
    assert process(tokens, "--language", language, "--detokenize") == raw


@pytest.mark.parametrize(
    ("mode", "flag"),
    [
        *(("--detokenize", flag) for flag in ("--lowercase", "--aggressive", "--no-escape")),
        *(("--no-tokenize", flag) for flag in ("--aggressive", "--no-escape")),
    ],
)
def test_flags_without_effect_are_refused(mode, flag):
    flags = ("--language", "en", mode, flag)
    done = run_script("data-prep/normalize_tokenize.py", *flags, stdin=b"a b\n")
    assert_one_line_error(done, f"{flag}: leave it out with {mode}")
    assert done.stdout == ""


def test_errors_are_one_line_and_leave_no_output(tmp_path):
    (tmp_path / "bad").write_bytes(b"good\n" * 4000 + b"\xff\n")
    for workers in (1, 2):
        done = run_script(
            "data-prep/normalize_tokenize.py",
            *("--language", "en", "--input", tmp_path / "bad", "--output", tmp_path / "out"),
            *("--workers", workers),
        )
        assert_one_line_error(done, "bad:4001: invalid UTF-8")
    (tmp_path / "empty").write_bytes(b"")
    done = run_script(
        "data-prep/normalize_tokenize.py",
        *("--language", "en", "--input", tmp_path / "empty", "--output", tmp_path / "out"),
    )
    assert_one_line_error(done, "empty: the file is empty")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad", "empty"]
