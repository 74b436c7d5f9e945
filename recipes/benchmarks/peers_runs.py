"""The runs of peers.sh: an environment for each peer, a process for each job, a report of each.

A report is kept, and its job is not run again unless the job or the code of the driver changed.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measurement import ROOT
from peers_plan import DRIVERS, PEERS, Bench
from training_runs import PLUGIN

from vaswani_plugin import processor
from vaswani_plugin.errors import UserError
from vaswani_plugin.text.lines import read_json
from vaswani_plugin.text.outputs import write_json


def make_environment(work: Path, name: str) -> str:
    """The interpreter of an environment that holds the pinned packages and, by a link, all of ours.

    Raises:
        UserError: it can't be made; names the log.
    """
    folder, requirements = work / "envs" / name, DRIVERS / f"requirements-{name}.txt"
    python, log = folder / "bin" / "python", work / "logs" / f"install-{name}.log"
    site, stamp = sysconfig.get_paths()["purelib"], folder / "complete"
    key = f"{site}\n{requirements.read_text(encoding='utf-8')}"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == key:
        return str(python)
    print(f"peers: making the environment of {name} ...", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as stream:

        def step(*command: object) -> None:
            done = subprocess.run(list(map(str, command)), stdout=stream, stderr=stream)
            if done.returncode:
                raise UserError(f"not installed: {last_line(log)} (log: {log})")

        step(sys.executable, "-m", "venv", "--without-pip", folder)
        own = next((folder / "lib").glob("python*/site-packages"))
        (own / "ours.pth").write_text(f"{site}\n", encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-input"]
        step(*pip, "--disable-pip-version-check", "--no-deps", "-r", requirements)
    stamp.write_text(key, encoding="utf-8")
    return str(python)


def last_line(log: Path) -> str:
    """The last error in a log, or its last line."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().split("\n")
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines)[-1].strip()[:300]


def digest(paths: list[Path]) -> str:
    """A sum of the contents of files."""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()


def run_job(bench: Bench, peer: str, name: str, what: str, job: dict[str, Any]) -> dict | None:
    """The report of a job; one that finished before is not run again. None where it fails."""
    if bench.failed(peer, what) or bench.failed(peer, "installing"):
        return None
    report, log = bench.work / "runs" / f"{name}.json", bench.work / "logs" / f"{name}.log"
    raw, request = report.with_suffix(".raw"), report.with_suffix(".job")
    for folder in (report.parent, log.parent):
        folder.mkdir(parents=True, exist_ok=True)
    driver = DRIVERS / f"run_{PEERS[peer].driver}.py"
    code = [driver, DRIVERS / "job.py"]
    if peer == "ours":
        code += [DRIVERS / "run_fairseq.py", *sorted(PLUGIN.rglob("*.py"))]
    code += sorted(DRIVERS.glob(f"requirements-{PEERS[peer].environment}.txt"))
    key = {"job": job, "code": digest(code), "processor": processor.description()}
    data = bench.data / "data-bin"
    key["data"] = digest(sorted([*data.glob("dict.*"), *data.glob("train.*.idx")]))
    if report.is_file():
        found = read_json(report, "remove it, and it is measured again")
        if found["key"] == key:
            return found
    print(f"peers: {name} ...", file=sys.stderr, flush=True)
    write_json(request, job | {"report": str(raw)})
    reason, start = "", time.perf_counter()
    with open(log, "wb") as stream:
        try:
            done = subprocess.run(
                [bench.pythons[peer], str(driver), str(request)],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env=environment(bench, peer),
                timeout=bench.plan.timeout,
            )
            if done.returncode:
                reason = f"exit code {done.returncode}: {{}}"
        except subprocess.TimeoutExpired:
            reason = f"not done after {bench.plan.timeout} s: {{}}"
    wall = time.perf_counter() - start
    if reason or not raw.is_file():
        end = f"{last_line(log)} (log: {log})"
        bench.fail(peer, what, reason.format(end) if reason else f"no report: {end}")
        return None
    found = {"key": key, "wall": wall, **json.loads(raw.read_text(encoding="utf-8"))}
    write_json(report, found)
    raw.unlink()
    return found


def environment(bench: Bench, peer: str) -> dict[str, str]:
    """Variables of a peer's process: the same for all, but for where the plugin lies."""
    changes = {"OMP_NUM_THREADS": str(bench.threads), "MKL_NUM_THREADS": str(bench.threads)}
    # Checkpoints of stock fairseq, JoeyNMT and Sockeye hold more than PyTorch loads by default.
    changes |= {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1", "PYTHONUTF8": "1"}
    changes |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    with_plugin = PEERS[peer].driver in ("ours", "ctranslate2")
    changes["PYTHONPATH"] = str(ROOT) if with_plugin else ""
    return os.environ | changes


def interleaved(
    bench: Bench, peers: list[str], what: str, make: Callable[[str], dict[str, Any]]
) -> dict[str, list[dict]]:
    """`rounds` reports of each peer that can do it; the peers take turns."""
    found: dict[str, list[dict]] = {peer: [] for peer in peers}
    for number in range(1, bench.plan.rounds + 1):
        for peer in peers:
            name = f"{what.replace(' ', '-')}-{peer}-{number}"
            report = run_job(bench, peer, name, what, make(peer))
            if report is not None:
                found[peer].append(report)
    return found
