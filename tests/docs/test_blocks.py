"""Every shell and Python block of README and docs: run on a small bundle, or marked with a reason.

<!-- run -->: after the other ones of its page, in one folder; <!-- run small -->: with a small
corpus as DATA_BIN and sizes of `SMALL`, as every block of fairseq's; <!-- not run: REASON -->: its
programs, scripts and flags are looked up, but for docs/results.
"""

import gzip
import json
import os
import re
import shlex
import shutil
import socket
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from toy_bundle import write_toy_bundle

from tests.conftest import REPO, fairseq_environment, write_toy_corpus
from tests.support.recipes import run_in_forks
from vaswani_plugin.cli.__main__ import COMMANDS, command_parser
from vaswani_plugin.files.lines import read_lines
from vaswani_plugin.metrics.bleu import corpus_score, sacrebleu_metric

PAGES = [REPO / "README.md", REPO / "CONTRIBUTING.md", *sorted((REPO / "docs").rglob("*.md"))]
LANGUAGES = {"bash", "sh", "shell", "python"}
RUN = ("run", "run small")
SMALL = {
    "vaswani_base": "vaswani_debug",
    "vaswani_wide": "vaswani_debug",
    "vaswani_lm_base": "vaswani_lm_debug",
    "--max-tokens 4096": "--max-tokens 150",
    "--update-freq 8": "--update-freq 1",
    "--real-tokens 3125": "--real-tokens 70",
    "--save-interval-updates 1500": "--save-interval-updates 1",
    "--tokens-per-sample 512 --context-window 256": "--tokens-per-sample 32 --context-window 16",
    "--tokens-per-sample 512": "--tokens-per-sample 64",
}
"""What a block is run with in place of what is printed."""
ADDED = {
    "fairseq-train": "--max-epoch 6 --cpu --num-workers 0 --validate-interval 6",
    "fairseq-hydra-train": "optimization.max_epoch=1 common.cpu=true dataset.num_workers=0",
    "fairseq-generate": "--cpu",
    "fairseq-eval-lm": "--cpu",
}
"""Flags that end a training soon; the last one of two counts."""
AVERAGED = "averaged.pt"
"""The checkpoint that README's block makes, and other pages use."""
LEAST_BLEU = 18
"""Of the model of the tutorial of own text; about something else, German gets 4."""
INSTALLED = Path(sys.executable).parent
PATH = f"{INSTALLED}{os.pathsep}{os.environ['PATH']}"
ACTIVATE = "source recipes/lib/env.sh"
"""Left out of a block that is run: the tests run in an activated environment."""

_BLOCK = re.compile(r"(?:^<!-- (.*?) -->\n)?^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block and the mark on the line before it."""

    page: str
    mark: str
    language: str
    code: str


def blocks() -> list[Block]:
    return [
        Block(str(page.relative_to(REPO)), *match)
        for page in PAGES
        for match in _BLOCK.findall(page.read_text(encoding="utf-8"))
        if match[1] in LANGUAGES
    ]


def test_every_block_is_run_or_says_why_not():
    """Those of fairseq run, but where docs/results say how a record was made."""
    for block in blocks():
        name = f"{block.page}: {block.code.split(chr(10))[0]}"
        assert block.mark in RUN or re.match(r"(not run|from): \S", block.mark), name
        if re.search(r"^fairseq-", block.code, re.MULTILINE):
            assert block.mark in RUN or block.page.startswith("docs/results/"), name
    assert sum(block.mark in RUN for block in blocks()) >= 16


def commands(code: str) -> list[list[str]]:
    """The simple commands of a shell block, as words."""
    found = []
    for line in code.replace("\\\n", " ").split("\n"):
        words = shlex.split(line.strip().removeprefix("$ "), comments=True)
        command: list[str] = []
        for word in [*words, "|"]:
            if word in ("|", "&&", "||", ";"):
                found += [command] if command else []
                command = []
            else:
                command.append(word)
    return found


@cache
def script_text(name: str) -> str:
    """The script, with what the recipes share."""
    shared = "recipes/common.sh" if re.match(r"recipes/.*\.sh$", name) else os.devnull
    return "".join((REPO / each).read_text(encoding="utf-8") for each in (name, shared))


def check(command: list[str]) -> None:
    """The script and flags of a command of ours exist."""
    program, *words = [word for word in command if not re.match(r"\w+=", word)] or ["echo"]
    if program == "vaswani":
        assert words[0] in COMMANDS or words[0] == "--help", command
        known = command_parser(words[0]).format_help()
    elif program in ("bash", "python") and words[0] not in ("-m", "tests/run.sh"):
        known = script_text(words[0])
    else:  # of others
        return
    ours = words[1 : words.index("--")] if "--" in words else words[1:]  # behind it, another's
    for flag in (word.partition("=")[0] for word in ours if re.match(r"--\w", word)):
        assert re.search(rf"{flag}(?![\w-])", known), f"{flag}: not of {' '.join(command)}"


@pytest.mark.parametrize(
    "block",
    [b for b in blocks() if b.language != "python" and not b.page.startswith("docs/results")],
    ids=lambda block: f"{block.page}:{block.code.split(chr(10))[0][:40]}",
)
def test_commands_and_flags_exist(block):
    for command in commands(block.code):
        check(command)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the bundle at the quickstart's place; its weights are random."""
    root = tmp_path_factory.mktemp("docs")
    (root / "work" / "quickstart").mkdir(parents=True)
    write_toy_bundle(root / "work" / "quickstart", positions=100)
    return root


def pages_to_run() -> dict[str, list[Block]]:
    found: dict[str, list[Block]] = {}
    for block in blocks():
        if block.mark in RUN:
            found.setdefault(block.page, []).append(block)
    return found


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> str:
    """PATH, with Hydra's training, which is no fork, and its flags of `ADDED`."""
    own, name = tmp_path_factory.mktemp("programs"), "fairseq-hydra-train"
    (own / name).write_text(f'#!/bin/sh\nexec {INSTALLED / name} "$@" {ADDED[name]}\n')
    (own / name).chmod(0o755)
    return f"{own}{os.pathsep}{PATH}"


def prepare_training(folder: Path, data_bin: Path) -> None:
    """What a reader has at hand: a checkout, a binarized corpus, texts."""
    for name in ("vaswani_plugin", "recipes", "data-prep"):
        (folder / name).symlink_to(REPO / name)
    (folder / "DATA_BIN").symlink_to(data_bin)
    write_toy_corpus(folder)
    for split in ("train", "valid", "test"):
        for made, name in (("src", "en"), ("tgt", "de"), ("src", "")):
            text = (folder / f"{split}.{made}").read_text(encoding="utf-8")
            (folder / f"{split}.{name}".rstrip(".")).write_text(text, encoding="utf-8")


def small(code: str) -> str:
    for printed, used in SMALL.items():
        code = code.replace(printed, used)
    return code


@pytest.mark.parametrize("page", pages_to_run())
def test_blocks_run(page, folder, programs, toy_data_bin):
    """With the small bundle in place of the quickstart's; each block has to print or write."""
    (folder / "mine.en").write_text("A bird in the garden.\n", encoding="utf-8")
    if not (folder / "DATA_BIN").exists():
        prepare_training(folder, toy_data_bin)
    found = pages_to_run()[page]
    text = "".join(block.code for block in found)
    if AVERAGED in text and "fairseq-train" not in text and not (folder / AVERAGED).exists():
        found = [block for block in pages_to_run()["README.md"] if AVERAGED in block.code] + found
    for block in found:
        code = small(block.code) if block.mark == "run small" else block.code
        if block.language == "python":
            code = f"python -c {shlex.quote(code)}"
        code = re.sub(rf"^{ACTIVATE}.*", "", code, flags=re.MULTILINE)
        code = code.replace("--user-dir vaswani", f"--user-dir {REPO}/vaswani")  # as forks know it
        if re.search(r"^fairseq-(hydra-)?train", block.code, re.MULTILINE):
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        if "--destdir DATA_BIN" in block.code:
            (folder / "DATA_BIN").unlink()
        command = ["bash", "-euo", "pipefail", "-c", f"cd {folder}\n{code}"]
        done = run_in_forks(command, fairseq_environment(PATH=programs), 900, **ADDED)
        assert done.returncode == 0, f"{block.code}\n{done.stderr[-2000:]}"
        assert (done.stdout + done.stderr).strip() or " > " in block.code, block.code


@pytest.mark.parametrize("scale", ["tiny", pytest.param("full", marks=pytest.mark.slow)])
def test_the_tutorial_of_own_text(scale, tmp_path):
    """Its commands run; at full length they give a model of use to us and to others."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    names = {"work/": f"{tmp_path}/", ACTIVATE: ":", ":5000/": f":{port}/"}
    names |= {"serve ": f"serve --port {port} "}
    if scale == "tiny":
        names |= {"own_text.sh ": "own_text.sh --scale tiny --cpu "}
        for corpus in ("tatoeba", "toy/en-de"):
            small = tmp_path / "text" / corpus
            small.mkdir(parents=True)
            names |= {f"data-prep/{corpus}": str(small)}
            for path in (REPO / "data-prep" / corpus).glob("*.gz"):
                count = 600 if path.stem.startswith("train") else 60
                lines = b"".join(gzip.decompress(path.read_bytes()).splitlines(True)[:count])
                (small / path.name).write_bytes(gzip.compress(lines))
    said = ""
    for block in blocks():
        if block.page == "docs/tutorials/own-text.md":
            code = block.code
            for printed, used in names.items():
                code = re.sub(rf"\b{printed}" if printed[0].isalpha() else printed, used, code)
            if block.language == "python":
                (tmp_path / "block.py").write_text(code, encoding="utf-8")
                code = f"python {tmp_path}/block.py"
            done = run_in_forks(
                ["bash", "-euo", "pipefail", "-c", f"cd {REPO}\n{code}"],
                fairseq_environment(PATH=PATH),
                seconds=4 * 3600,
            )
            assert done.returncode == 0, f"{code}\n{done.stderr[-2000:]}"
            said += done.stdout
    work = tmp_path / "tatoeba"
    assert '{"translatedText":' in said
    assert len(re.findall(r"[\d.]+ nats a piece of old text", said)) == 2
    sizes = [(work / name).stat().st_size for name in ("int8/model.bin", "model/model.safetensors")]
    assert sizes[0] < (0.4 if scale == "full" else 1) * sizes[1]
    sources, references = (list(read_lines(work / "raw" / f"test.{x}")) for x in ("en", "de"))
    assert len(list(read_lines(work / "int8.out"))) == len(sources)
    if scale == "tiny":
        return
    import transformers  # for seconds

    for output in (work / "int8.out", work / "test.out"):
        lines = list(read_lines(output))
        assert corpus_score(sacrebleu_metric(), lines, [references]) > LEAST_BLEU
        assert len(set(lines)) > 0.9 * len(set(sources))
    new = tmp_path / "tatoeba-new"
    outputs, wanted = (list(read_lines(new / name)) for name in ("test.out", "raw/test.de"))
    before = list(read_lines(new / "before.out"))
    scores = [corpus_score(sacrebleu_metric(), each, [wanted]) for each in (before, outputs)]
    assert scores[1] > 2 * scores[0]
    learned = json.loads((work / "result.json").read_text(encoding="utf-8"))["learned"]
    assert learned["warning"] is None and learned["losses"][1] > 1.5 * learned["losses"][0]
    tokenizer = transformers.AutoTokenizer.from_pretrained(work / "marian")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(work / "marian")
    found = model.generate(**tokenizer(sources[:20], return_tensors="pt", padding=True))
    assert sum(map(str.__eq__, tokenizer.batch_decode(found, skip_special_tokens=True), lines)) > 10
