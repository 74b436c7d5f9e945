"""Every command with valid arguments, over one folder of small files and models."""

import re
import shutil
from pathlib import Path

import pytest
from toy_bundle import SENTENCES, write_checkpoint, write_toy_bundle
from toy_language_model import WORDS, write_bundle, write_lines
from toy_parser import write_parser_bundle

from tests.support.commands import vaswani
from vaswani_plugin.text.settings import TextSettings

LINES = [" ".join(line.split()[:4]) for line in SENTENCES] * 12
TREE = "(S (NP (D the) (N cat)) (VP (V sat)))"
LOG = (
    '2026 | INFO | train_inner | {{"epoch": 1, "update": 0.1, "loss": "8", "ppl": "8", '
    '"wps": "500", "wpb": "100", "num_updates": "{0}", "lr": "1e-07", "gnorm": "3", "wall": "{0}"}}'
)


class Command:
    """A line of arguments, of whose {names} some are texts, other inputs, files that it writes."""

    def __init__(self, line: str) -> None:
        self.line, names = line, list(dict.fromkeys(re.findall(r"{(\w+)}", line)))
        self.texts = [name for name in names if name in TEXTS]
        self.files = [name for name in names if name in FILES]
        self.outputs = [n.replace("_", ".") for n in names if n not in TEXTS + FILES]


TEXTS = "src ref hyp nbest words tokens trees parsed keys prm log".split()
FILES = "bundle parser lm summarizer data checkpoint second stock result".split()
LINES_OF_COMMANDS = """\
average --inputs {checkpoint} {second} --output {mean_pt}
bleu --hypothesis {hyp} --reference {ref} --source {src} --training-source {ref}
evalb {trees} {parsed} --parameters {prm}
rouge --hypothesis {hyp} --references {ref}
complexity
positions --plot {p_svg}
cost --hours 12 --device P100
curves {log} --output {c_svg}
translate --cpu --model {bundle} {src} {ref} --output {out} --format json --long split
serve --model {bundle} --api-keys {keys} --port 0
rescore --cpu --data {data} --system own={checkpoint} --nbest {nbest} --source {src} \
--reference {ref} --output {best}
summarize --cpu --model {summarizer} {words} --output {out} --format json
parse --cpu --model {parser} {tokens} --output {out} --format json
import --checkpoint {stock} --data-bin {data} --output {ours_pt}
export --to fairseq --allow-layer-norm-eps --model {bundle} --output {stock_pt}
card --model {bundle} --result {result}
attention --model {bundle} --corpus {src} {ref}
lm --cpu --model {lm} --text {words} --baselines --train-data {words}
complete --cpu --model {lm} --max-new-tokens 3 ba
"""
COMMANDS = {line.split()[0]: Command(line) for line in LINES_OF_COMMANDS.splitlines()}
"""`archs` reads no file, and counts for seconds."""


def arguments(name: str, world: dict[str, Path], folder: Path, **other: object) -> list[str]:
    """With the files of the world but for `other`, and outputs in `folder`/new, which is made."""
    (folder / "new").mkdir(exist_ok=True)
    if name == "card" and "bundle" not in other:  # it writes into its input
        other["bundle"] = shutil.copytree(world["bundle"], folder / "bundle", dirs_exist_ok=True)
    outputs = {output: folder / "new" / output for output in COMMANDS[name].outputs}
    given = {key.replace(".", "_"): path for key, path in (world | outputs | other).items()}
    return [word.format(**given) for word in COMMANDS[name].line.split()]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files by name; `bundle` is one of translation."""
    folder = tmp_path_factory.mktemp("world")
    for name in ("translation", "parsing"):
        (folder / name).mkdir()
    cut = TextSettings("words", article_tokens=9, summary_tokens=5)
    flags = ("--sample-break-mode", "eos", "--loss-after", "<sep>")
    files = {
        "bundle": write_toy_bundle(folder / "translation"),
        "parser": write_parser_bundle(folder / "parsing"),
        "lm": write_bundle(folder / "lm", TextSettings("words"), WORDS),
        "summarizer": write_bundle(folder / "summarizer", cut, [*WORDS, "<sep>"], *flags),
        "data": folder / "translation",
        "checkpoint": folder / "translation" / "averaged.pt",
        "second": folder / "second.pt",
        "stock": folder / "stock.pt",
        "result": folder / "result.json",
    }
    write_checkpoint(files["data"], files["second"], seed=2)
    flags = ["--model", files["bundle"], "--output", files["stock"], "--allow-layer-norm-eps"]
    assert vaswani("export", "--to", "fairseq", *flags).code == 0
    files["result"].write_text('{"recipe": "toy"}')
    texts = {
        "src": LINES,
        "ref": [line.lower() for line in LINES],
        "hyp": LINES[1:] + LINES[:1],
        "nbest": [f"{n} ||| {line} ||| ||| -1" for n, line in enumerate(LINES)],
        "words": [" ".join(WORDS[n : n + n % 7]) for n in range(20)] * 3,
        "tokens": ["the doctor sleeps .", "a bird sings ."] * 6,
        "trees": [TREE] * 4,
        "parsed": [TREE, TREE.replace("NP", "X"), "", TREE],
        "keys": ["a-secret-key", "another-key"],
        "prm": ["DELETE_LABEL TOP", "CUTOFF_LEN 3"],
        "log": [LOG.format(n) for n in (10, 20, 30)],
    }
    assert (list(files), list(texts)) == (FILES, TEXTS)
    return files | {name: write_lines(folder / name, lines) for name, lines in texts.items()}
