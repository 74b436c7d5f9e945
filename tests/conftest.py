"""Fixtures that many tests share: a small corpus of random words, and fairseq with the plugin."""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import HealthCheck, settings

from tests.support.commands import REPO, in_fork, run_python
from vaswani_plugin.model.families import ELSEWHERE

# Examples may take any time: the processes of a run share the cores.
# They are the same whenever the same files are imported; with `--hypothesis-profile explore` they
# are new ones in each run.
settings.register_profile(
    "explore", derandomize=False, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("tests", settings.get_profile("explore"), derandomize=True, database=None)
settings.load_profile("tests")

# What a shell starts in the background ignores Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

PLUGIN = REPO / "vaswani_plugin"
ancestors = pytest.mark.skipif(not ELSEWHERE, reason="a copy without the folder ancestors/")
PATIENCE = 300_000  # milliseconds that a page may take on a busy machine
TOY_SENTENCES = {"train": 60, "valid": 20, "test": 60}  # 60 and 20 are no multiples of 8

# Variables by which torchrun, Slurm or a user's shell would change what a test starts.
_FOREIGN_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOGLEVEL")

RunFairseq = Callable[..., subprocess.CompletedProcess]

# A Transformer of fairseq's own, small enough to train for four epochs in a second.
STOCK_TINY = (
    *("--arch", "transformer_iwslt_de_en", "--share-all-embeddings", "--dropout", "0"),
    *("--encoder-layers", "1", "--decoder-layers", "1"),
    *("--encoder-embed-dim", "16", "--decoder-embed-dim", "16"),
    *("--encoder-ffn-embed-dim", "16", "--decoder-ffn-embed-dim", "16"),
    *("--encoder-attention-heads", "2", "--decoder-attention-heads", "2"),
    *("--optimizer", "adam", "--lr-scheduler", "fixed", "--lr", "0.01"),
    *("--criterion", "cross_entropy", "--max-tokens", "100", "--num-workers", "0", "--cpu"),
    *("--no-progress-bar", "--log-interval", "1", "--no-epoch-checkpoints"),
)


def fairseq_environment(**extra: str) -> dict[str, str]:
    """The environment of a test's process: one thread, nothing of a surrounding distributed run."""
    environment = {k: v for k, v in os.environ.items() if k not in _FOREIGN_VARIABLES}
    return environment | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPO)} | extra


def run_module(
    module: str, *args: object, timeout: float = 300, **environment: str
) -> subprocess.CompletedProcess:
    """Run ``python -m module args`` in a fork, or anew where a test here has used a GPU."""
    options = {"timeout": timeout, "env": fairseq_environment(**environment)}
    if module.startswith("fairseq_cli") and not torch.cuda.is_initialized():
        return in_fork("-m", module, *args, **options)
    return run_python("-m", module, *args, capture_output=True, text=True, **options)


def write_toy_corpus(folder: Path, seed: int = 1) -> None:
    """Write ``{train,valid,test}.{src,tgt}``: the target is the source reversed, 2 to 9 words."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 5))) for _ in range(40)]
    for split, count in TOY_SENTENCES.items():
        pairs = [rng.choices(words, k=rng.randint(2, 9)) for _ in range(count)]
        for language, step in (("src", 1), ("tgt", -1)):
            lines = "".join(" ".join(pair[::step]) + "\n" for pair in pairs)
            (folder / f"{split}.{language}").write_text(lines, encoding="utf-8")


def binarize(text: Path, destination: Path) -> None:
    """Run fairseq-preprocess over a folder of `write_toy_corpus` with one joined dictionary."""
    result = run_module(
        "fairseq_cli.preprocess",
        *("--source-lang", "src", "--target-lang", "tgt", "--joined-dictionary"),
        *("--trainpref", text / "train", "--validpref", text / "valid"),
        *("--testpref", text / "test", "--destdir", destination, "--workers", "1"),
    )
    assert result.returncode == 0, result.stderr


# fairseq's code of its time: scripted modules, Hydra's old interface, masks of two types, hooks,
# autocast, sizes of arrays; and what PyTorch says where there is no GPU. What else warns is shown.
KNOWN_WARNINGS = (
    "ignore:.torch.jit.script. is deprecated:DeprecationWarning",
    r"ignore:\s*(The version_base parameter|The strict flag|hydra.experimental|'.*' is validated)",
    "ignore:In 'config'",
    "ignore:Support for mismatched key_padding_mask",
    "ignore:(.torch.nn.utils.weight_norm|.torch.cuda.amp|Using non-full backward hooks)",
    "ignore:__array__ implementation doesn't accept a copy:DeprecationWarning",
    "ignore:overflow encountered in scalar subtract:RuntimeWarning:fairseq",
    "ignore:This process .* is multi-threaded, use of fork:DeprecationWarning",  # tests' own
    "ignore:('pin_memory' argument|torch.cuda.amp.GradScaler is enabled|TF32 acceleration)",
)


def pytest_configure(config: pytest.Config) -> None:
    """Hides what is known."""
    for known in KNOWN_WARNINGS:
        config.addinivalue_line("filterwarnings", known)


LONG = ("tests/recipes/", "tests/docs/test_blocks.py", "tests/contracts/")
"""What takes minutes a file. It runs first, so that no process works alone at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, the others in their order."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Chance is the same whenever a test runs, whatever ran before it, in its fixtures, too."""
    # fairseq sets it for its data loaders.
    os.environ.pop("PYTHONWARNINGS", None)
    random.seed(1)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(1)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(1)
        # A command that ran here with --threads leaves its number behind.
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(scope="session")
def toy_data_bin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a binarized src-tgt corpus (60 training, 20 validation and 60 test pairs)."""
    text, destination = tmp_path_factory.mktemp("toy-text"), tmp_path_factory.mktemp("toy-bin")
    write_toy_corpus(text)
    binarize(text, destination)
    return destination


@pytest.fixture(scope="session")
def toy_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small bundle of random weights, not to be changed."""
    from toy_bundle import write_toy_bundle  # takes seconds to import

    return write_toy_bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="session")
def run_fairseq() -> RunFairseq:
    """``run_fairseq("train", DATA, "--arch", …)`` runs fairseq's command with this plugin."""

    def run(command: str, *args: object, **options: str) -> subprocess.CompletedProcess:
        return run_module(f"fairseq_cli.{command}", *args, "--user-dir", PLUGIN, **options)

    return run


@pytest.fixture(scope="session")
def stock_run(
    toy_data_bin: Path, run_fairseq: RunFairseq, tmp_path_factory: pytest.TempPathFactory
) -> tuple[subprocess.CompletedProcess, Path]:
    """Four uninterrupted epochs of `STOCK_TINY`: the finished process and its save folder."""
    folder = tmp_path_factory.mktemp("stock-run")
    run = run_fairseq("train", toy_data_bin, *STOCK_TINY, "--max-epoch", 4, "--save-dir", folder)
    assert run.returncode == 0, run.stderr
    return run, folder


@pytest.fixture(scope="session")
def stock_checkpoint(stock_run: tuple[subprocess.CompletedProcess, Path]) -> Path:
    """The last checkpoint of `stock_run`."""
    return stock_run[1] / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def chromium():
    """A browser without a window; the tests of pages are skipped where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: the page is unseen")
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium): the page is unseen")
    with api.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, timeout=PATIENCE)

        def new_page(**options):
            page = browser.new_page(**options)
            page.set_default_timeout(PATIENCE)
            return page

        yield SimpleNamespace(new_page=new_page)
