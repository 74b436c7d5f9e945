"""`vaswani translate`: a line for a line whatever it holds, the same as fairseq-interactive."""

import json
import math
import platform
import subprocess
import threading

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from toy_bundle import POSITIONS, SENTENCES

from tests.conftest import fairseq_environment
from tests.support.commands import python_command, vaswani
from vaswani_plugin import processor
from vaswani_plugin.cli.__main__ import main
from vaswani_plugin.cli.command import LocatedLines
from vaswani_plugin.errors import UserError
from vaswani_plugin.inference import search_engine
from vaswani_plugin.inference.bundle import Bundle
from vaswani_plugin.inference.ctranslate2_engine import has_vnni
from vaswani_plugin.inference.translator import Translator
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.search import Search
from vaswani_plugin.text.pipeline import WORD_BORDERS, cut

LONGEST = POSITIONS - 1  # the end of sentence takes one
# What other programs break lines or choke at; none is longer than the toy model's limit.
ODD = ["", " \t \u3000", "a bird\r", "the old\x85 cat\u2028sat\u2029 \x0b\x0c on", "SUB \x1a \x1b"]
ODD += ["\ufeff", "\U0001f600 \U0001f468\u200d\U0001f469", "@@ @-@ &amp; <unk> </s> <pad>"]
ODD += ["\u200b", "x\ty\t"]
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0\x1b"), max_size=30)


@pytest.fixture(scope="module")
def translator(toy_bundle):
    return Translator.from_pretrained(toy_bundle)


@pytest.fixture(scope="module")
def bundle(toy_bundle):
    return Bundle.load(toy_bundle)


@pytest.fixture
def translate(toy_bundle):
    """Runs the command on bytes; returns the exit code, the output and the errors."""

    def run(text: bytes, *args: object) -> tuple[int, str, str]:
        done = vaswani("translate", "--model", toy_bundle, "--cpu", *args, stdin=text)
        return done.code, done.out, done.err

    return run


def encoded(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


def lines_of(output: str) -> list[str]:
    assert output == "" or output.endswith("\n")
    return output.split("\n")[:-1]


def test_equals_fairseq_interactive(toy_bundle, bundle, translate, run_fairseq, tmp_path):
    beam = 3
    pieces = [bundle.pipeline.encode(line) for line in SENTENCES]
    pieces = [" ".join(piece.split()[:LONGEST]) for piece in pieces]
    (tmp_path / "pieces").write_text("".join(f"{piece}\n" for piece in pieces))
    run = run_fairseq(
        "interactive",
        *(toy_bundle, "--task", "vaswani_translation", "--path", toy_bundle / "model.pt"),
        *("--source-lang", "en", "--target-lang", "de", "--input", tmp_path / "pieces"),
        *("--beam", beam, "--lenpen", 0.9, "--buffer-size", 100, "--max-tokens", 100, "--cpu"),
        *("--nbest", beam),
    )
    assert run.returncode == 0, run.stderr
    rows = [line.split("\t") for line in run.stdout.split("\n") if line.startswith("H-")]
    assert len(rows) == beam * len(SENTENCES)
    expected = [(int(n[2:]) + 1, float(s) * math.log(2), t) for n, s, t in rows]
    flags = ("--beam", beam, "--lenpen", 0.9, "--nbest", beam, "--long", "truncate")
    code, out, err = translate(encoded(SENTENCES), *flags, "--format", "json")
    assert code == 0, err
    objects = [json.loads(line) for line in lines_of(out)]
    found = [(o["line"], h) for o in objects for h in o["hypotheses"]]
    assert len(found) == len(expected)
    for (number, hypothesis), (expected_number, score, tokens) in zip(found, expected, strict=True):
        assert (number, " ".join(hypothesis["tokens"])) == (expected_number, tokens)
        assert hypothesis["score"] == pytest.approx(score, abs=1e-4)
        assert hypothesis["text"] == bundle.pipeline.decode(tokens)
    assert len({tokens for _, _, tokens in expected}) > len(SENTENCES) // 2, "all alike: no test"
    shown = [f"{number}\t{h['score']:.6f}\t{h['text']}" for number, h in found]
    assert lines_of(translate(encoded(SENTENCES), *flags)[1]) == shown
    code, out, _ = translate(encoded(SENTENCES), *flags[:4], "--long", "truncate")
    assert lines_of(out) == [o["hypotheses"][0]["text"] for o in objects]


def test_samples_are_those_of_python(translate, translator):
    flags = ("--sampling", "--nbest", 3, "--top-k", 5, "--temperature", 2.0, "--seed", 7)
    options = {"sampling": True, "nbest": 3, "top_k": 5, "temperature": 2.0, "seed": 7}
    found = translator.translate("a bird", align=False, **options).hypotheses
    expected = [f"1\t{h.score:.6f}\t{h.text}" for h in found]
    assert lines_of(translate(b"a bird\n", *flags)[1]) == expected


def test_a_carriage_return_inside_a_line_is_refused_and_invisible_characters_go(translate):
    code, out, err = translate(b"a bird\ra bird\ra bird\r")
    assert (code, out) == (1, "") and "standard input:1: a carriage return" in err and "tr" in err
    joined = "a bird\n\ufeffa bird\na\u200b bi\u00adrd\n".encode()
    assert len(set(lines_of(translate(joined)[1]))) == 1


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(TEXT, max_size=6))
@example(ODD)
@example(["\x1c", "a\x1fb", "\U000e0001", "\u0301", "\x7f"])
@example(["x" * 3000, "\u0e01" * 100, "a-" * 200])
def test_any_text_gives_as_many_lines(translator, tmp_path_factory, lines):
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    path.write_bytes(encoded(lines))
    raw = LocatedLines([str(path)])
    options = {"beam": 1, "batch_tokens": 64, "long": "split"}
    out = [found.text for found in translator.stream(raw, buffer=4, **options)]
    assert len(out) == len(lines)
    for source, line in zip(lines, out, strict=True):
        assert len(line.splitlines()) <= 1
        if not source.strip():
            assert line == ""


def test_the_first_line_comes_before_the_last_is_sent(toy_bundle):
    arguments = ["translate", "--model", str(toy_bundle), "--threads", "1", "--cpu"]
    with subprocess.Popen(
        python_command("-m", "vaswani_plugin.cli", *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=fairseq_environment(PYTHONUNBUFFERED=""),  # which would flush by itself
    ) as process:
        clock = threading.Timer(120, process.kill)  # a held-back line would block the reader
        clock.start()
        process.stdin.write(b"a bird\n\n")
        process.stdin.flush()
        assert process.stdout.readline().strip()
        assert process.stdout.readline() == b"\n"
        process.stdin.write(b"the cat")
        process.stdin.close()
        assert process.stdout.readline().strip()
        assert process.stderr.read() == b""
        assert process.wait(300) == 0
        clock.cancel()


def test_what_came_before_a_bad_line_is_not_lost(translate, tmp_path):
    good = b"a bird\nthe cat\n"
    _, expected, _ = translate(good)
    code, out, err = translate(good + b"\xff\nthe sea\n")
    assert (code, out) == (1, expected)
    assert "standard input:3: invalid UTF-8" in err and err.count("\n") == 1
    (tmp_path / "in").write_bytes(good + b"x" * 500 + b"\nthe sea\n")
    code, out, err = translate(b"", tmp_path / "in", "--output", tmp_path / "out")
    assert (code, out) == (1, "")
    assert f"subwords, the model takes {LONGEST}: give --long split or" in err
    assert f"{tmp_path / 'in'}:3" in err and f"{tmp_path / 'out'}.part" in err
    assert (tmp_path / "out.part").read_text() == expected
    assert not (tmp_path / "out").exists()
    code, _, err = translate(b"", tmp_path / "out.part", "--output", tmp_path / "out")
    assert code == 1 and "would be lost" in err and (tmp_path / "out.part").read_text() == expected


def test_split_translates_the_pieces(translate, translator):
    line = " ".join(SENTENCES)
    tokens = translator.pipeline.encode(line).split()
    pieces = list(cut(tokens, LONGEST, WORD_BORDERS["subword-nmt"]))
    assert len(pieces) > 2
    flags = ("--long", "split", "--one-sentence-a-line", "--format", "json")
    (whole,) = json.loads(translate(encoded([line]), *flags)[1])["hypotheses"]
    options = SearchOptions(beam=2, print_alignment="hard")
    single = [translator.engine.decode([piece], options)[0][0] for piece in pieces]
    assert whole["tokens"] == [token for h in single for token in h.tokens]
    assert whole["score"] == pytest.approx(sum(h.score for h in single), abs=1e-4)
    scores = [score for h in single for score in h.token_scores]
    assert whole["token_scores"] == pytest.approx(scores, abs=1e-4)
    expected, source, target = [], 0, 0
    for piece, found in zip(pieces, single, strict=True):
        expected += [[s + source, t + target] for s, t in found.alignment]
        source, target = source + len(piece), target + len(found.tokens)
    assert whole["alignment"] == expected


def test_the_device_and_the_type(bundle, monkeypatch, capsys):
    """A GPU where there is one; bfloat16 on a CPU that multiplies it, by PyTorch alone."""
    asked = []

    def engine(_, device, dtype, threads):
        asked.append((device, dtype))
        raise UserError("chosen")

    monkeypatch.setattr(search_engine, "TorchEngine", engine)
    command = ["translate", "--model", str(bundle.folder)]
    for known in ("avx2", "avx512_bf16", "amx_bf16"):
        monkeypatch.setattr(processor, "instructions", lambda known=known: frozenset([known]))
        assert main([*command, "--bf16", "--cpu"]) == 1
        refused = "--bf16 needs a GPU, or PyTorch on a CPU with" in capsys.readouterr().err
        assert refused == (known == "avx2")
    assert asked == [("cpu", "bfloat16")] * 2
    assert main([*command, "--bf16", "--cpu", "--engine", "ctranslate2"]) == 1
    assert "--bf16 needs a GPU, or PyTorch" in capsys.readouterr().err
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for flag in ([], ["--fp16"], ["--bf16"], ["--cpu"]):
        assert main([*command, *flag]) == 1
    assert asked[2:] == [("cuda", None), ("cuda", "float16"), ("cuda", "bfloat16"), ("cpu", None)]


def test_what_linux_says_of_the_processor_and_where_nothing_is_known(monkeypatch, tmp_path):
    flags = "fpu avx2 amx_bf16 avx_vnni"
    (tmp_path / "linux").write_text(f"model name\t: A: B\nflags\t: {flags}\n\nflags\t: fpu\n")
    monkeypatch.setattr(processor, "_first_core", processor._first_core.__wrapped__)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for name, description in (("linux", "A: B avx2"), ("elsewhere", "x86_64")):
        monkeypatch.setattr(processor, "CPUINFO", tmp_path / name)
        assert processor.description() == description
        assert processor.has_bfloat16() == has_vnni() == (name == "linux")


def test_memory_that_does_not_suffice_is_one_line(translator, monkeypatch):
    def fail(*args, **options):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Search, "run", fail)
    with pytest.raises(ValueError, match="2 sentences of up to 3 tokens: give less than --batch"):
        translator.engine.decode([["a", "b"], ["c"]], SearchOptions())
