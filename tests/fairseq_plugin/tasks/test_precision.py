"""--amp on a CPU multiplies in bfloat16 and learns as float32 does."""

import re

import preloaded
import pytest

from tests.conftest import PLUGIN, fairseq_environment

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
        done = preloaded.run(
            *(script, toy_data_bin, *flags, *extra),
            capture_output=True,
            text=True,
            env=fairseq_environment(VASWANI_KERNELS="off"),
            timeout=300,
        )
        assert f"PRODUCTS {expected}\n" in done.stderr, done.stderr[-2000:]
