"""An option added as docs/how-to/layer.md says, and a hook: all commands follow, exports refuse."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPO, fairseq_environment

PAGE = REPO / "docs" / "how-to" / "layer.md"
EXPORTS = ("fairseq", "huggingface", "ctranslate2", "onnx")
PROGRAM = '''
import json, sys
from pathlib import Path

import torch
from hydra import compose, initialize_config_dir
from toy_bundle import write_toy_bundle

from tests.support.commands import vaswani
from vaswani_plugin import Translator
from vaswani_plugin.model.configuration import Configuration

LINE = "The cat slept."
flags = ("--arch", "vaswani_debug", "--activation", "gelu")
folder = write_toy_bundle(Path(sys.argv[1]), model=flags)
translator = Translator.from_pretrained(folder)
engine = translator.engine


def own(found):
    """log P by a full pass over source and target."""
    source = [*map(engine.source.index, found.source_tokens), 2]
    target = [*map(engine.target.index, found.tokens), 2]
    with torch.no_grad():
        logits = engine.model(torch.tensor([source]), torch.tensor([[2, *target[:-1]]]))
    return logits[0].log_softmax(-1).gather(1, torch.tensor(target)[:, None]).sum().item()


found = translator.translate(LINE, one_sentence=True)
report = {"layer": engine.model.decoder.layers[0].feed_forward.activation.__name__}
report |= {"own": own(found), "older": Configuration.from_checkpoint({}, {}).activation}
report["help"] = vaswani("archs", "vaswani_debug").out
with initialize_config_dir(str(Path("recipes/config").resolve()), version_base="1.1"):
    report["hydra"] = str(compose("translation", ["model.activation=gelu"]).model.activation)
report["python"] = sum(found.token_scores)
flags = ("--model", folder, "--format", "json", "--one-sentence-a-line")
(translation,) = json.loads(vaswani("translate", *flags, stdin=LINE.encode()).out)["hypotheses"]
report["command"] = sum(translation["token_scores"])
report["tokens"] = " ".join(found.source_tokens)
report["exports"] = {
    kind: vaswani("export", "--to", kind, "--model", folder, "--output", f"{folder}-{kind}").error
    for kind in sys.argv[2:]
}
engine.model.decoder.layers[1].register_forward_hook(lambda m, x, y: (1.5 * y[0], *y[1:]))
hooked = translator.translate(LINE, one_sentence=True)
report["hooked"] = [sum(hooked.token_scores), own(hooked)]
print(json.dumps(report))
'''


@pytest.fixture(scope="module")
def patched(tmp_path_factory) -> Path:
    """A copy of the project with the page's option."""
    root = tmp_path_factory.mktemp("patched")
    for name in ("vaswani_plugin", "data-prep", "tests", "recipes"):
        ignore = shutil.ignore_patterns("__pycache__", "peer", "gpu", "work")
        shutil.copytree(REPO / name, root / name, ignore=ignore)
    patch = re.search(r"```diff\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    assert patch.count("\n+++ ") == 3, "more files than the page promises"
    command = ["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch"]
    done = subprocess.run(command, cwd=root, input=patch, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return root


@pytest.fixture(scope="module")
def environment(patched):
    paths = (patched, patched / "data-prep", patched / "tests/support", patched / "recipes/lib")
    return fairseq_environment(PYTHONPATH=":".join(map(str, paths)))


@pytest.fixture(scope="module")
def report(patched, environment, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gelu")
    command = [sys.executable, "-c", PROGRAM, folder, *EXPORTS]
    done = subprocess.run(command, cwd=patched, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]) | {"folder": folder}


def test_the_models_own_log_p(report):
    assert report["layer"] == report["hydra"] == "gelu" and report["older"] == "relu"
    assert re.search(r"--activation +relu +of the feed-forward network\n", report["help"])
    assert report["python"] == pytest.approx(report["own"], abs=1e-4)
    assert report["command"] == pytest.approx(report["own"], abs=1e-4)
    hooked, expected = report["hooked"]
    assert hooked == pytest.approx(expected, abs=1e-4)
    assert abs(hooked - report["own"]) > 0.01


def test_fairseqs_command(report, patched, environment):
    folder = report["folder"] / "model"
    flags = ("--user-dir", patched / "vaswani_plugin", "--path", folder / "model.pt", "--cpu")
    flags += ("--task", "vaswani_translation", "--source-lang", "en", "--target-lang", "de")
    command = [sys.executable, "-m", "fairseq_cli.interactive", folder, *flags, "--beam", "2"]
    options = {"env": environment, "capture_output": True, "text": True}
    done = subprocess.run(command, input=report["tokens"] + "\n", **options)
    assert done.returncode == 0, done.stderr[-3000:]
    scores = re.search(r"^P-0\t(.*)$", done.stdout, re.MULTILINE)[1].split()
    # printed with four decimals, in base 2
    assert sum(map(float, scores)) * 0.6931471805599453 == pytest.approx(report["own"], abs=1e-3)


@pytest.mark.parametrize("kind", EXPORTS)
def test_exports_refuse_it_by_name(report, kind):
    message = report["exports"][kind]
    assert "--activation gelu" in message
