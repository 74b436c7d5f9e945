"""Dictionaries: the same text, faster, and remembered by checkpoints; --amp on a CPU."""

import re

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from model_factory import make_dictionary

from tests.conftest import PLUGIN, fairseq_environment
from tests.support.commands import run_python
from vaswani_plugin.fairseq_plugin.tasks._common import TextDictionary
from vaswani_plugin.fairseq_plugin.tasks.translation import (
    VaswaniTranslationConfig,
    VaswaniTranslationTask,
)

TRAINING = (
    *("--arch", "vaswani_debug", "--task", "vaswani_translation", "--cpu", "--seed", "1"),
    *("--max-update", "30", "--max-tokens", "300", "--warmup-updates", "40", "--lr-factor", "0.5"),
    *("--no-progress-bar", "--log-interval", "20", "--disable-validation", "--no-save"),
    *("--dropout", "0"),
)
WATCH = """
import sys, torch
from fairseq_cli import train
seen = set()
linear = torch.nn.functional.linear
def watched(*arguments, **options):
    y = linear(*arguments, **options)
    seen.add(str(y.dtype))
    return y
torch.nn.functional.linear = watched
sys.argv[0] = "fairseq-train"
train.cli_main()
print("PRODUCTS", *sorted(seen), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bpe_symbol": "@@ "},
        {"escape_unk": True},
        {"unk_string": "?"},
        {"include_eos": True},
        {"extra_symbols_to_ignore": {5}},
        {"separator": "_"},
    ],
)
@pytest.mark.parametrize("rows", [1, 2])
def test_a_sentence_is_the_string_it_was(options, rows):
    dictionary = TextDictionary()
    for word in ("a@@", "b", "c"):
        dictionary.add_symbol(word)
    tokens = torch.tensor([0, 4, 5, 3, 6, 1, 2] * rows).view(rows, -1).squeeze(0)
    if rows > 1:
        options = {k: v for k, v in options.items() if k not in ("unk_string", "separator")}
    own = Dictionary.string(dictionary, tokens, **options)
    assert dictionary.string(tokens, **options) == own
    assert "b" in own or options.get("extra_symbols_to_ignore")


def test_the_translation_task_uses_it(toy_data_bin):
    loaded = VaswaniTranslationTask.load_dictionary(str(toy_data_bin / "dict.src.txt"))
    assert type(loaded) is TextDictionary and len(loaded) > 20


def make_task(dictionary: Dictionary) -> VaswaniTranslationTask:
    return VaswaniTranslationTask(VaswaniTranslationConfig(data="DATA"), dictionary, dictionary)


def test_a_checkpoint_remembers_its_dictionaries():
    state = make_task(make_dictionary(9)).state_dict()
    task = make_task(make_dictionary(9))
    task.load_state_dict(state)
    assert task.state_dict() == state
    task.load_state_dict({})  # older ones remember nothing
    shuffled = Dictionary()
    for number in reversed(range(9)):
        shuffled.add_symbol(f"w{number}")
    for other in (shuffled, make_dictionary(9, prefix="b")):
        with pytest.raises(ValueError, match="source dictionary of DATA is not the one"):
            make_task(other).load_state_dict(state)


def test_generation_refuses_them(toy_data_bin, run_fairseq, tmp_path):
    save, other = tmp_path / "save", tmp_path / "other"
    ours = ("--task", "vaswani_translation", "--cpu", "--max-tokens", 500)
    trained = run_fairseq(
        *("train", toy_data_bin, *ours, "--arch", "vaswani_debug", "--max-update", 1),
        *("--save-dir", save, "--no-progress-bar", "--no-epoch-checkpoints"),
    )
    assert trained.returncode == 0, trained.stderr
    checkpoint = save / "checkpoint_last.pt"
    assert "dictionary_sha256" in checkpoint_utils.load_checkpoint_to_cpu(checkpoint)["task_state"]
    other.mkdir()
    for file in toy_data_bin.iterdir():
        (other / file.name).write_bytes(file.read_bytes())
    for language in ("src", "tgt"):
        path = other / f"dict.{language}.txt"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(reversed(lines)), encoding="utf-8")
    arguments = (*ours, "--path", checkpoint, "--beam", 1)
    refused = run_fairseq("generate", other, *arguments)
    assert refused.returncode != 0
    assert "source dictionary of" in refused.stderr.splitlines()[-1]
    assert run_fairseq("generate", toy_data_bin, *arguments).returncode == 0


@pytest.fixture(scope="module")
def losses(run_fairseq, toy_data_bin):
    """The last logged loss of the same training with and without --amp, in bits a token."""
    found = {}
    for name, flags in (("float32", []), ("amp", ["--amp"])):
        run = run_fairseq("train", toy_data_bin, *TRAINING, *flags)
        assert run.returncode == 0, run.stderr
        logged = re.findall(r"\| loss ([\d.]+) ", run.stdout + run.stderr)
        found[name] = float(logged[-1])
    return found


def test_it_learns_as_float32_does(losses):
    assert losses["amp"] == pytest.approx(losses["float32"], rel=0.01)


def test_its_products_are_in_bfloat16(toy_data_bin, tmp_path):
    script = tmp_path / "watched.py"
    script.write_text(WATCH, encoding="utf-8")
    flags = [*TRAINING, "--max-update", "2", "--user-dir", PLUGIN]
    for extra, expected in ((["--amp"], "torch.bfloat16"), ([], "torch.float32")):
        done = run_python(
            *(script, toy_data_bin, *flags, *extra),
            capture_output=True,
            text=True,
            env=fairseq_environment(VASWANI_KERNELS="off"),
            timeout=300,
        )
        assert f"PRODUCTS {expected}\n" in done.stderr, done.stderr[-2000:]
