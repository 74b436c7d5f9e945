"""Nothing opens a connection but curl, in one function, to the addresses which the recipes name.

The service listens, and the benchmark of it asks it on the loopback address.

What the readers of files do is watched by tests/contracts; this looks at who could do more.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PLUGIN, REPO
from tests.support.scripts import run_bash
from tests.test_imports import imported_names

FETCHES = REPO / "recipes" / "common.sh"
NETWORK = {"socket", "ssl", "urllib", "http", "ftplib", "smtplib", "requests", "aiohttp", "httpx"}
NETWORK |= {"telnetlib", "xmlrpc", "boto3", "huggingface_hub", "wandb", "torch.hub", "asyncio"}
LOADERS = re.compile(r"\b(nltk\.download|torch\.hub|load_state_dict_from_url|hf_hub|snapshot_down)")
TOOLS = re.compile(r"(?:^|[\s;|&(])(curl|wget|nc|ssh|scp|rsync|ftp|git clone|git fetch)\s|/dev/tcp")
ADDRESS = re.compile(r"https?://[\w./%*{}$-]+")
LOCK = PLUGIN / "fairseq_plugin" / "training" / "checkpoints.py"
SERVING = {PLUGIN / "serving"}

REFUSE = """
import os, sys
with open(os.environ["WATCHED"], "a") as stream:
    print(*sys.orig_argv, file=stream)
def refuse(event, arguments):
    if event.startswith("socket.") and event != "socket.gethostname":
        raise SystemExit(f"NETWORK: {event} {arguments}")
sys.addaudithook(refuse)
"""


def python_files() -> list[Path]:
    folders = (PLUGIN, REPO / "data-prep", REPO / "recipes")
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def test_no_python_file_knows_the_network():
    for path in python_files():
        names = imported_names(path)
        known = {n for n in names if n in NETWORK or n.split(".")[0] in NETWORK}
        known -= {"urllib.parse"}  # only splits addresses
        known -= {"socket"} if path == LOCK else set()  # the name of the machine
        known -= (
            {"asyncio", "socket", "http.client", "urllib.parse.parse_qsl"}
            if SERVING & {path, path.parent}
            else set()
        )
        assert not known, f"{path} imports {sorted(known)}"
        assert not LOADERS.search(path.read_text(encoding="utf-8")), path


def test_one_line_of_the_scripts_downloads():
    scripts = sorted((REPO / "recipes").rglob("*.sh"))
    found = []
    for path in scripts:
        lines = path.read_text(encoding="utf-8").split("\n")
        code = [line for line in lines if not line.lstrip().startswith("#")]
        found += [(path, line.strip()) for line in code if TOOLS.search(line)]
    assert [path for path, _ in found] == [FETCHES], found
    assert found[0][1].startswith("curl -fL ")


def test_addresses_stand_where_files_are_fetched():
    """In no other Python file than its examples; what code could ask for is in the recipes.

    The table of patches only writes links to fairseq's issues.
    """
    written_down = {"fairseq_patches_table.py"}
    for path in python_files():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
        docs = {
            ast.get_docstring(n, clean=False) for n in ast.walk(tree) if isinstance(n, DOCUMENTED)
        }
        found = [t for t in texts if isinstance(t, str) and t not in docs and ADDRESS.search(t)]
        assert not found or path.name in written_down, f"{path}: {found}"


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


@pytest.mark.parametrize("recipe", ["quickstart", "lm"])
def test_a_recipe_on_made_text_connects_nowhere(recipe, tmp_path):
    """Its first stages, in processes whose Python ends at the first socket."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(REFUSE)
    # Python itself: the forks of run_bash's own `python` read no sitecustomize.py.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    watched = tmp_path / "watched"
    environment = {"PYTHONPATH": str(tmp_path / "site"), "PATH": path, "WATCHED": str(watched)}
    probe = [sys.executable, "-c", "import socket; socket.create_connection(('127.0.0.1', 9))"]
    seen = subprocess.run(probe, env=environment, capture_output=True, text=True)
    assert "NETWORK: socket." in seen.stderr, "the test could see nothing"
    options = [
        "--cpu",
        "--scale",
        "tiny",
        "--work",
        tmp_path / "work",
        "--until",
        "bpe" if recipe == "quickstart" else "code",
    ]
    done = run_bash(REPO / "recipes" / f"{recipe}.sh", *options, **environment)
    assert done.returncode == 0, done.stderr
    assert "NETWORK" not in done.stderr
    assert ("bpe.py" if recipe == "quickstart" else "code_text.py") in watched.read_text()
