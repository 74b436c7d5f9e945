"""recipes/common.sh: steps, options, files, one training on several nodes."""

import gzip
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from fairseq_flags import parsed

from tests.conftest import REPO
from tests.support.commands import wait_for
from tests.support.scripts import assert_one_line_error, quick_environment, run_bash, run_script
from vaswani_plugin.errors import UserError
from vaswani_plugin.text.languages import two_languages

RECIPES = sorted(path.stem for path in (REPO / "recipes").glob("*.sh") if path.stem != "common")
RECIPE = f"""#!/usr/bin/env bash
# A recipe of the tests.
recipe=made name=one files='' options='name files' paths=files
source {shlex.quote(str(REPO / "recipes" / "common.sh"))}
begin "$@"
"""


@pytest.fixture
def recipe(tmp_path):
    """Write a recipe with these steps, and run it in a work folder with an odd name."""

    def run(steps: str, *args: object, **environment: str) -> subprocess.CompletedProcess:
        script = tmp_path / "made.sh"
        script.write_text(RECIPE + steps, encoding="utf-8")
        return run_bash(script, "--work", tmp_path / "-work ü", *args, **environment)

    return run


@pytest.fixture
def program(tmp_path):
    """Write a shell script of this name and these lines; returns its folder."""

    def write(name: str, lines: str) -> str:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{lines}\n")
        (folder / name).chmod(0o755)
        return str(folder)

    return write


def test_steps_are_done_once_and_from_a_step_on_again(recipe, tmp_path):
    steps = "for n in a b c; do step $n bash -c \"echo $n >>'$work/done'\"; done\n"
    done = tmp_path / "-work ü" / "done"
    assert [recipe(steps).returncode for _ in range(2)] == [0, 0]
    assert done.read_text() == "a\nb\nc\n"
    assert recipe(steps, "--from", "b").returncode == 0
    assert done.read_text() == "a\nb\nc\nb\nc\n"
    assert recipe(steps, "--from", "a", "--until", "a").returncode == 0
    assert done.read_text() == "a\nb\nc\nb\nc\na\n"
    assert recipe(steps).returncode == 0  # what follows it is done again, too
    assert done.read_text() == "a\nb\nc\nb\nc\na\nb\nc\n"


@pytest.mark.parametrize(
    "changed", ["step a echo 2", "f() { echo 2; }\nstep a f"], ids=["a command", "a function"]
)
def test_a_changed_step_is_refused(recipe, changed):
    """The body of a function counts, too."""
    assert recipe(changed.replace("2", "1")).returncode == 0
    refused = recipe(changed)
    assert refused.returncode == 1
    assert "step a was done by another command" in refused.stderr and "--from a" in refused.stderr
    assert recipe(changed, "--from", "a").returncode == 0


def test_a_failure_is_told_and_goes_on_there(recipe, tmp_path):
    steps = 'step a touch "$work/a"\n'
    for flags, way in (
        ((), "the same command"),
        (("--from", "b"), "the same command without --from"),
    ):
        failed = recipe(f'{steps}step b bash -c "echo lost >&2; exit 3"\n', *flags)
        assert failed.returncode == 3 and "lost" in failed.stderr
        assert "step b ended with exit code 3" in failed.stderr
        assert f"; {way}, or a corrected one, goes on there" in failed.stderr
    (tmp_path / "-work ü" / "a").unlink()
    assert recipe(f"{steps}step b true\n").returncode == 0, "what failed may change"
    assert not (tmp_path / "-work ü" / "a").exists(), "a was done before"


def test_of_a_long_line_the_beginning_is_told_and_of_half_a_file_nothing_left(recipe, tmp_path):
    failed = recipe("step a bash -c 'printf %0999d 0; exit 1'\n")
    assert failed.returncode == 1
    assert "0" * 300 in failed.stderr and "0" * 301 not in failed.stderr
    failed = recipe('step b to "$work/out" bash -c "echo half; exit 1"\n')
    assert failed.returncode == 1
    assert not (tmp_path / "-work ü" / "out").exists()


def test_options(recipe, tmp_path):
    assert recipe("step a false\n", "--name", "wrong").returncode == 1  # nothing is done
    steps = 'printf "%s|" "$name" "$files" "$scale" "$workers" "${extra[*]}"\nstep a true\n'
    done = recipe(steps, "--name", "two", "--files", "x y", "z", "--cpu", "--", "--seed", "2")
    assert done.stdout == "two|x y\nz|full|1|--seed 2|"
    same = ("--name", "two", "--files", "x y", "z", "--cpu", "--", "--seed", "3")
    assert recipe(steps, *same).stdout.endswith("|--seed 3|")  # nothing is trained yet
    (tmp_path / "-work ü" / ".steps" / "train").touch()
    for args in (("--name", "three", "--cpu"), same[:-2]):
        other = recipe(steps, *args)
        assert "--files x y z -- --seed 3" in other.stderr
        assert other.returncode == 1 and "made with other options" in other.stderr


def test_a_name_in_another_folder_is_another_file(recipe, tmp_path):
    """The result of the first file must not pass for the second one's."""
    steps = 'step copy cp "$files" "$work/copied"\n'
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "-text ü").write_text(name)
    assert recipe(steps, "--files", "-text ü", cwd=tmp_path / "a").returncode == 0
    again = recipe(steps, "--files", tmp_path / "a" / "-text ü", cwd=tmp_path / "b")
    assert again.returncode == 0 and again.stderr == ""
    other = recipe(steps, "--files", "-text ü", cwd=tmp_path / "b")
    assert other.returncode == 1 and "made with other options" in other.stderr
    (tmp_path / "a" / "-text ü").write_text("b")
    changed = recipe(steps, "--files", "-text ü", cwd=tmp_path / "a")
    assert changed.returncode == 1 and "a/-text ü has changed since step copy" in changed.stderr


def test_a_corpus_that_has_changed_is_refused(recipe, tmp_path):
    steps = 'step raw to "$work/out" text "$data/train.en"\n'
    for text, start, code in (("1\n", "", 0), ("1\n", "", 0), ("2\n", "", 1), ("2\n", "raw", 0)):
        (tmp_path / "train.en.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        done = recipe(steps, "--data", tmp_path, *(("--from", start) if start else ()))
        assert done.returncode == code and ("has changed since" in done.stderr) == bool(code)
    assert (tmp_path / "-work ü" / "out").read_text() == "2\n"


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (("--nam", "x"), "--nam: no option of this recipe"),
        (("--name",), "--name: needs a value"),
        (("--name", "a", "b"), "b: --name takes one value"),
        (("--nodes", "2"), "--nodes 2: needs --master HOST:PORT"),
        (("--minutes", "0"), "--minutes: must be numbers"),
        (("--gpus", "08"), "--minutes: must be numbers"),
        (("--node-rank", "1"), "--node-rank 1: must be below --nodes 1"),
        (("--work", "/dev/null/a:b"), "takes a colon for the end of a path"),
        (("--finish", "--continue", "9"), "give one of them"),
        (("--finish", "--from", "train"), "give one of them"),
        (("--work", "/dev/null/{}"), "--work /dev/null/{}, "),
        (("--dry-run", "--", "--seed", "2", "--arch", "nonsense"), "--arch nonsense: no such"),
        (("--from", "b", "--until", "a"), "--from b: no such step up to --until a"),
        (("--until", "binarise"), "--from or --until binarise: no such step; --dry-run lists them"),
    ],
)
def test_mistaken_options_are_one_line(recipe, args, part):
    done = recipe("step a echo\nstep b true\nfinish x\n", *args)
    assert done.returncode == 1 and done.stdout == ""
    (line,) = done.stderr.strip().split("\n")
    assert line.startswith("made: error: ") and part in line


@pytest.mark.parametrize(
    ("name", "args", "part"),
    [
        ("wmt14_en_de", ("--gpus", 3), "meant for 8 GPUs; give 1, 2, 4 or 8 in all"),
        ("wmt14_en_fr", ("--gpus", 16), "meant for 8 GPUs"),
        ("parsing", ("--setting", "paper", "--gpus", 16, "--minutes", 9), "meant for 8 GPUs"),
        ("parsing", ("--setting", "paper", "--scale", "full"), "such as -- --max-update 50000"),
        ("lm", ("--arch", "vaswani_base"), "--arch vaswani_base: of another task"),
        ("wmt14_en_de", ("--", "--arch", "vaswani_lm_tiny"), "of another task"),
        ("seq2seq", ("--seeds", "1 x"), "--seeds 1 x: must be numbers"),
        ("seq2seq", ("--nbest", "."), "no valid.nbest in it"),
        ("seq2seq", ("--gpus", 3, "--scale", "full"), "3 GPUs can't share 128 sentences"),
        ("lm", ("--corpus", "wikitext-103", "--gpus", 32), "for 16 GPUs; give 1, 2, 4, 8 or 16"),
        ("own_text", ("--train", "a.de", "a.en", "--data", "."), "by --train, not by --data"),
        ("own_text", ("--train", "a.de", "a.en", "--init-from", "."), "no model of de-en: give "),
        ("own_text", ("--train", "a.en", "a.de", "--init-from", "x"), "with its model.pt"),
        ("own_text", ("--train", "a.src", "a.tgt"), "--pair : give two different languages"),
        ("quickstart", ("--", "--save-dir=x"), "--save-dir: this recipe saves in --work"),
        ("own_text", ("--train", "a.de", "a.en", "--", "--max-epoch", 3), "give --max-update"),
        ("own_text", ("--train", "a.de", "a.en", "--", "-sen"), "-s: this recipe's dir"),
        ("summarization", ("--", "--tokens-per-sample", 9), "have their lengths in this recipe"),
    ],
)
def test_what_would_train_otherwise_is_refused(name, args, part, tmp_path):
    for file in (*("a.de", "a.en", "a.src", "a.tgt"), "sentencepiece.model", "model.pt"):
        (tmp_path / file).touch()
    pair = {"source_language": "en", "target_language": "de"}
    (tmp_path / "preprocessing.json").write_text(json.dumps(pair))
    script = REPO / "recipes" / f"{name}.sh"
    done = run_bash(script, "--scale", "tiny", "--dry-run", *args, cwd=tmp_path)
    assert done.stdout == ""
    assert_one_line_error(done, part)


PAIRS = {
    **{"en-de": "en de", "de-hsb": "de hsb", "en-pt-BR": "en pt-BR", "pt-BR-en": "pt-BR en"},
    **{"zh-Hans-zh-Hant-TW": "zh-Hans zh-Hant-TW", "es-419-ca-valencia": "es-419 ca-valencia"},
    **dict.fromkeys(("en", "de-de", "en-pt-br", "english-german", "en-de-fr", "en-pt_BR", "en-")),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_languages_are_named_by_bcp_47(recipe, pair):
    """The recipes' rule is that of the scripts."""
    done = recipe(f'languages "{pair}"; echo "$source $target"\n', "--dry-run")
    if PAIRS[pair]:
        assert done.stdout == f"{PAIRS[pair]}\n" and " ".join(two_languages(pair)) == PAIRS[pair]
        return
    assert done.returncode == 1 and f"--pair {pair}: give two different languages" in done.stderr
    with pytest.raises(UserError, match=f"--pair {pair}: give two different languages"):
        two_languages(pair)


def test_two_at_once(recipe, tmp_path):
    """The second one waits a little, then says so, and the first one ends well."""
    steps = "step a bash -c \"until [[ -f '$work/go' ]]; do sleep .1; done\"\n"
    (tmp_path / "slow.sh").write_text(RECIPE + steps, encoding="utf-8")
    command = ["bash", tmp_path / "slow.sh", "--work", tmp_path / "-work ü"]
    first = subprocess.Popen(command, env=quick_environment(), stderr=subprocess.DEVNULL)
    try:
        while not (tmp_path / "-work ü" / "logs" / "a.log").exists():
            assert first.poll() is None
            time.sleep(0.05)
        second = recipe(steps)
    finally:
        (tmp_path / "-work ü" / "go").touch()
    assert first.wait() == 0
    assert second.returncode == 1 and "another run is at work there" in second.stderr


@pytest.mark.parametrize("sent", ["INT", "TERM", "HUP", "USR1", "KILL", "timeout"])
def test_a_signal_reaches_the_step_which_may_save(tmp_path, sent):
    """Nothing stays behind, the message is true, however long the line, and the command goes on."""
    waits = """import os, signal, sys, time
def save(*_):
    print("saved", file=open("saved", "a"))
    sys.exit(time.sleep(0.2) or 75)
for each in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"): signal.signal(signal.Signals[each], save)
print(f"{1:9000}", flush=True)
while not os.path.exists("go"): time.sleep(0.1)"""
    (tmp_path / "wait.py").write_text(waits)
    steps = 'waits() { cd "$work" && python ../wait.py; }\nstep a waits\n'
    (tmp_path / "made.sh").write_text(RECIPE + steps, encoding="utf-8")
    work = tmp_path / "work"
    command = ["bash", tmp_path / "made.sh", "--work", work]
    environment = quick_environment()
    command = ["timeout", "3"] * (sent == "timeout") + command
    start = {"env": environment, "start_new_session": True, "stderr": subprocess.PIPE}
    started = subprocess.Popen(command, text=True, **start)
    log = work / "logs" / "a.log"
    wait_for(lambda: log.exists() and log.read_text().endswith(" 1\n"))
    for _ in range({"INT": 1, "timeout": 0}.get(sent, 2)):  # `timeout` sends its signal twice
        started.send_signal(getattr(signal, f"SIG{sent}"))
        time.sleep(0.05)
    assert started.wait(300) == {"KILL": -9, "timeout": 124}.get(sent, 75)
    wait_for(lambda: (work / "saved").exists() and (work / "saved").stat().st_size)
    assert (work / "saved").read_text() == "saved\n"
    stopped = "made: stopped in step a; the same command goes on there\n"
    assert started.stderr.read() == "made: a\n" + ("" if sent == "KILL" else stopped)
    (work / "go").touch()
    assert subprocess.run(command[-4:], env=environment, timeout=300).returncode == 0
    assert log.read_text().count(" 1\n") > 1, "it is done again"


@pytest.mark.parametrize(
    ("limit", "flags", "threads", "added"),
    [
        ("", "vaswani_debug --update-freq 4", "unset", ""),
        ("", "vaswani_debug --distributed-world-size 3", "2", ""),
        ("7", "vaswani_debug --distributed-world-size 3", "7", ""),
        ("", "vaswani_tiny --update-freq 6", "2", " --update-freq 2 --distributed-world-size 3"),
        ("", "vaswani_tiny --update-freq 4 --update-freq=1", "unset", " --update-freq 1"),
        ("", "vaswani_tiny --update-freq 4 --update-freq 4,2", "unset", ""),
        ("", "vaswani_tiny --update-freq 4 --arch vaswani_debug", "unset", ""),
        ("1", "vaswani_tiny --update-freq 4", "1", " --update-freq 4"),
    ],
)
def test_workers_on_a_cpu_share_its_cores(recipe, program, tmp_path, limit, flags, threads, added):
    """A small model's batches are shared out; threads don't spin; the user's number holds."""
    folder = program("fairseq-train", 'echo "${OMP_NUM_THREADS-unset} $OMP_WAIT_POLICY $*"')
    program("python", f'case $* in *affinity*) echo 4 ;; *) exec {sys.executable} "$@" ;; esac')
    steps = 'PATH="$bin:$PATH"\n[[ -n $OMP_NUM_THREADS ]] || unset OMP_NUM_THREADS\n'
    policy = "active" if limit else ""
    user = {"OMP_NUM_THREADS": limit, "OMP_WAIT_POLICY": policy}
    done = recipe(f"{steps}step train train --arch {flags}\n", "--cpu", bin=folder, **user)
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "-work ü" / "logs" / "train.log").read_text()
    assert log.startswith(f"{threads} {policy or 'passive'} ")
    assert log.endswith(f"--arch {flags}{added}\n")


@pytest.mark.parametrize(
    ("arch", "has", "flags", "used"),
    [
        *(("base", "amx_bf16", (), True), ("big", "amx_bf16", (), True)),
        *(("tiny", "amx_bf16", (), False), ("base", "amx_bf16", ("--float32",), False)),
        ("base", "GenuineIntel\n avx512_bf16", (), False),
        ("base", "AuthenticAMD\n avx512_bf16", ("--", "--bf16"), False),
        ("big_en_fr", "AuthenticAMD\n avx512_bf16", (), True),
    ],
)
def test_base_on_a_cpu_trains_in_bfloat16_where_it_is_fast(
    recipe, program, tmp_path, arch, has, flags, used
):
    folder = program("fairseq-train", 'echo "$@"')
    grep = shutil.which("grep")
    asked = f'case "$*" in *amx_bf16*) printf " {has}" | {grep} "$1" "$2"; exit;; esac'
    Path(folder, "grep").write_text(f'#!/bin/sh\n{asked}\nexec {grep} "$@"\n')
    Path(folder, "grep").chmod(0o755)
    steps = f'PATH="$bin:$PATH"\nstep train train --arch vaswani_{arch} --max-tokens 9\n'
    done = recipe(steps, "--work", tmp_path / "w", "--cpu", *flags, bin=folder)
    assert done.returncode == 0, done.stderr
    assert ("--amp" in (tmp_path / "w" / "logs" / "train.log").read_text()) is used
    assert done.stderr.count("products in bfloat16") == used


@pytest.mark.parametrize(
    ("batch", "flags", "expected"),
    [
        ("--max-tokens 8192", ("--gpus", 4), "2048"),
        ("--batch-size 128", ("--gpus", 2, "--", "--patience", 3), "64"),
        ("--max-tokens 8192", ("--cpu", "--", "--distributed-world-size", 2), "4096"),
        ("--max-tokens 8192", ("--gpus", 4, "--", "--max-tokens", 99), "99"),
        ("--max-tokens 1200", ("--gpus", 4), "512"),
    ],
)
def test_workers_share_the_batch_of_an_update(recipe, program, tmp_path, batch, flags, expected):
    steps = f'PATH="$bin:$PATH"\nstep train train --arch x {batch} --seed 1\n'
    done = recipe(steps, *flags, bin=program("fairseq-train", 'echo "$@"'))
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "-work ü" / "logs" / "train.log").read_text()
    assert log.rpartition(batch.split()[0])[2].split()[0] == expected


def test_a_training_that_is_done_goes_on(recipe, program, tmp_path):
    """--continue N keeps the checkpoints, as a step that was cut off does; --from begins anew."""
    folder = program("fairseq-train", 'echo "$@"; mkdir -p "$5"; echo x >>"$5/seen"')
    steps = 'PATH="$bin:$PATH"\nshare 8\nstep train train --update-freq $batches --max-update 5\n'
    steps += 'step after bash -c "echo x"\n'
    for flags in (("--gpus", 2), ("--gpus", 4, "--continue", 9), ("--cpu", "--from", "train")):
        done = recipe(steps, *flags, bin=folder)
        assert done.returncode == 0 and "made: after" in done.stderr, done.stderr
        if "--continue" in flags:
            seen = (tmp_path / "-work ü" / "checkpoints" / "seen").read_text()
            assert seen == "x\nx\n", "the checkpoints are kept"
    lines = (tmp_path / "-work ü" / "logs" / "train.log").read_text().split("\n")
    updates = [re.findall(r"--(?:update-freq|max-update) (\d+)", line) for line in lines[:-1]]
    assert updates == [["4", "5"], ["2", "5", "9"], ["8", "5"]], "the same batch"
    assert (tmp_path / "-work ü" / "checkpoints" / "seen").read_text() == "x\n"


def test_a_training_that_was_stopped_is_finished(recipe, program, tmp_path):
    """--finish scores what is saved, --minutes ends by the clock; a stale score is done again."""
    stop = '[ ! -f "$5/stop" ] || exit 75'
    folder = program("fairseq-train", f'echo "$@"; mkdir -p "$5"; {stop}; echo x >>"$5/a.pt"')
    steps = 'PATH="$bin:$PATH"\nstep train train --max-update 5\nstep score cat "$work"/*/a.pt\n'
    steps += "finish() { :; }\n"
    work = tmp_path / "-work ü"
    assert recipe(steps, "--cpu", "--minutes", 90, bin=folder).returncode == 0
    assert "--stop-time-hours 1.5" in (work / "logs" / "train.log").read_text()
    (work / "checkpoints" / "stop").touch()
    stopped = recipe(steps, "--cpu", "--continue", 9, bin=folder)
    assert stopped.returncode == 75
    assert "same command goes on there, with --finish it takes what is saved" in stopped.stderr
    saved = (work / "checkpoints" / "a.pt").rename(work / "a.pt")
    refused = recipe(steps, "--finish", "--cpu", bin=folder)
    assert refused.returncode == 1 and "step train has saved nothing yet" in refused.stderr
    saved.rename(work / "checkpoints" / "a.pt")
    finished = recipe(steps, "--cpu", "--finish", bin=folder)
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == "made: train: ends here, as asked\nmade: score\n"


def test_downloads_are_checked(recipe, tmp_path):
    """Against the first download, where no sum is published."""
    source = tmp_path / "site" / "text.gz"
    source.parent.mkdir()
    source.write_bytes(b"one")
    steps = f"step a download {source.as_uri()}\n"
    assert recipe(steps).returncode == 0
    file = tmp_path / "-work ü" / "download" / "text.gz"
    assert file.read_bytes() == b"one"
    file.write_bytes(b"two")
    refused = recipe(steps, "--from", "a")
    assert refused.returncode == 1 and "is not the published file" in refused.stderr
    file.unlink()
    assert recipe(steps.replace("text.gz", "none.gz"), "--from", "a").returncode == 1


def test_a_node_trains_and_does_nothing_else(recipe, program, tmp_path):
    """Each node runs torchrun with its rank; node 0 does all steps, the others wait for it."""
    folder = program("torchrun", 'echo torchrun "$@"')
    steps = 'PATH="$bin:$PATH"\nstep raw echo raw\nstep train train --arch x\n'
    nodes = ("--nodes", 2, "--gpus", 4, "--master", "host:1")
    for rank in (1, 0):
        done = recipe(steps, *nodes, "--node-rank", rank, bin=folder)
        assert done.returncode == 0, done.stderr
        log = tmp_path / "-work ü" / "logs" / f"train{'.node1' if rank else ''}.log"
        words = log.read_text().split("torchrun ")[-1].split()
        assert words[words.index("--node-rank") + 1] == str(rank)
        assert words[words.index("--nproc-per-node") + 1] == "4"
        assert ("raw:" in done.stderr or "made: raw" in done.stderr) == (rank == 0)


def test_the_pages_patch_fits_the_recipe():
    page = (REPO / "docs" / "how-to" / "recipes.md").read_text(encoding="utf-8")
    (patch,) = re.findall(r"```diff\n(.*?)```", page, re.DOTALL)
    old, new = (line[1:] for line in patch.split("\n")[:2])
    assert new == old.replace("10000", "4000") != old
    assert f"{old}\n" in (REPO / "recipes" / "multi30k.sh").read_text(encoding="utf-8")


NOT_IN_BASH_3 = (
    *(r"\b(declare|local|typeset) -[a-z]*[Anglu]", r"\b(mapfile|readarray|coproc)\b", r"\bwait -n"),
    *(r"\$\{\w+(\[[^]]*\])?(,|\^|@[A-Za-z]\})", r"&>>", r"\|&", r";;?&", r"\[\[ -v "),
    *(r"exec \{\w+\}", r"printf [^|]*%\(", r"\bglobstar\b", r"\blastpipe\b", r"\$\{[^}]*: -\d"),
)
GNU_ONLY = (
    *(r"\bsed (-\w+ )*-(i|r|z)\b", r"\bdate -d", r"\bstat -c", r"\breadlink -f", r"\brealpath\b"),
    *(r"\bgrep (-\w+ )*-\w*P", r"\bxargs (-\w+ )*-(r|d)\b", r"\bsort (-\w+ )*-\w*V", r"\btac\b"),
    *(r"\bcp -\w*[tu]\b", r"\bhead -n -", r"\btar .*--wildcards", r"\bnproc\b(?!-)"),
    r"\bfind .*-(quit|printf)",
)


def test_fine_tuning_builds_the_same_model(tmp_path):
    model = {"_name": "vaswani_tiny", "d_model": 64, "attention_scale": "none", "next_word": True}
    model |= {"dropout": 0.3, "d_k": None, "compile": True, "share": False}
    (tmp_path / "config.json").write_text(json.dumps({"model": model}))
    words = run_script("recipes/lib/steps.py", "flags", tmp_path).stdout.split()
    assert words == "vaswani_tiny --d-model 64 --attention-scale none --next-word".split()
    (tmp_path / "config.json").write_text("{}")  # CTranslate2's has no model
    done = run_script("recipes/lib/steps.py", "flags", tmp_path)
    assert_one_line_error(done, "config.json: of another program")


def test_bash_3_and_the_tools_of_macos_are_enough():
    """As far as words tell; `timeout` of env.sh runs on Linux alone, behind a test of it."""
    scripts = [*(REPO / "recipes").glob("*.sh"), REPO / "recipes" / "lib" / "env.sh"]
    for script in scripts:
        for number, line in enumerate(script.read_text(encoding="utf-8").split("\n"), 1):
            code = re.sub(r"(^|\s)#.*", "", line)
            for pattern in (*NOT_IN_BASH_3, *GNU_ONLY):
                assert not re.search(pattern, code), f"{script.name}:{number}: {line}"
    for bad in ("declare -A x", "mapfile -t x", "wait -n", "${x,,}", "a &>>b", "sed -i s/a/b/ c"):
        assert any(re.search(pattern, bad) for pattern in (*NOT_IN_BASH_3, *GNU_ONLY)), bad


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_prints_its_commands_and_its_help(name, tmp_path):
    """A dry run makes nothing, not even the work folder."""
    script, work = REPO / "recipes" / f"{name}.sh", tmp_path / "work"
    data = {"own_text": ("--train", "a.de", "a.en")}
    data["seq2seq"] = ("--data", tmp_path, "--nbest", ".")
    data["translation_as_completion"] = ("--data", tmp_path)
    data["parsing"] = ("--data", REPO / "data-prep" / "toy" / "trees")
    arguments = data.get(name, ())
    for file in arguments[1:3] if name == "own_text" else ("valid.nbest", "test.nbest"):
        (tmp_path / file).touch()
    done = run_bash(script, "--dry-run", "--cpu", "--work", work, *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if name in data:  # which it needs
        assert_one_line_error(run_bash(script, "--dry-run", cwd=tmp_path), "give ")
    until = ("--until", done.stdout.partition(":")[0], *arguments)
    assert run_bash(script, "--dry-run", *until, cwd=tmp_path).stdout.count("\n") == 1
    assert not work.exists()
    trainings = re.findall(r"^train: train (.*)$", done.stdout, re.MULTILINE)
    assert trainings or "train-forwards: lstm " in done.stdout
    for flags in trainings:
        assert parsed("--task", "vaswani_translation", *shlex.split(flags)).max_update > 1000
    shown = run_bash(script, "--help")
    assert shown.returncode == 0 and f"bash recipes/{name}.sh" in shown.stdout
    assert "--scale tiny" in shown.stdout and "shellcheck" not in shown.stdout


@pytest.mark.parametrize(("columns", "term"), [(None, "xterm"), (60, "dumb"), (60, "xterm")])
def test_a_training_is_shown(columns, term, tmp_path):
    """In a log and on a terminal, by fairseq's first speed, then the clock; at most --minutes."""
    log, record = tmp_path / "logs" / "train.log", "| INFO | {} | {{{}}}\n".format
    inner = '"loss": "9", "wps": "{0}", "ups": "{0}", "num_updates": "{1}", "wall": "{2}"'
    valid = '"valid_loss": "5", "valid_ppl": "32", "valid_bleu": "{}", "valid_num_updates": "{}", '
    valid += '"valid_best_bleu": "96"'
    lines = ["{'max_update': 1200, 'stop_time_hours': 0.2, \n", "Loaded checkpoint x\n"]
    for update, speed, wall in ((1, 0, 0), (2, 2, 1), (3, 9, 2), (102, 9, 52)):
        lines.append(record("train_inner", inner.format(speed, update, wall)))
        if update > 2:
            long = '"source": "▁Wo ?", "translation": "UNKNOWNTOKENINHYP ' + "0" * 99 + '"'
            lines += [record("sample", long), record("valid", valid.format(99 - update, update))]
    lines.append("| early stop since valid performance hasn't improved for last 8 runs\n")
    log.parent.mkdir()
    log.write_text(record("train_inner", inner.format(9, 1, 180)))
    reader, writer = os.openpty() if columns else os.pipe()
    if columns:
        termios.tcsetwinsize(writer, (24, columns))
    steps = [sys.executable, str(REPO / "recipes" / "lib" / "steps.py"), "progress", str(log)]
    with log.open("a") as out, os.fdopen(reader, "rb", 0) as stream:
        pipes = {"stdin": subprocess.PIPE, "stdout": out, "stderr": writer}
        command = subprocess.Popen(steps, **pipes, env=os.environ | {"TERM": term})
        os.close(writer)
        command.communicate("".join(lines).encode())
        shown = stream.read(1 << 16).decode()
    assert command.returncode == 0 and (tmp_path / "curves.png").stat().st_size > 1000
    lines = [re.sub(r"^[ \u2588-\u258f]+", "", x).strip() for x in re.split(r"[\r\n]+", shown)]
    has_bar = columns is not None and term != "dumb"
    expected = ["2/1,200, ≤ 9 min left, loss 9, 2 tokens/s"]
    expected += ["update 3: validation loss 5, perplexity 32, BLEU 96, the best BLEU so far"]
    expected += ["source       Wo?", f"translation  <unk> {'0' * (39 if has_bar else 99)}"]
    expected += ["update 102: validation loss 5, perplexity 32, BLEU -3, best BLEU: 96"]
    expected += ["ends early: valid performance hasn't improved for last 8 runs"]
    assert [line for line in expected if line not in lines] == []
    assert ("102/1,200, ≤ 9 min left, loss 9, valid 5, 9 tokens/s" in lines) is has_bar


@pytest.mark.parametrize("has_curves", [False, True])
def test_a_training_goes_on_where_nothing_can_be_drawn(tmp_path, has_curves):
    """A fine-tuning's log without curves, and matplotlib missing: the display must not end it."""
    (tmp_path / "matplotlib.py").write_text("raise ModuleNotFoundError")
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "train.log"
    lines = "'max_update': 9, 'stop_time_hours': 1.\nLoaded checkpoint x (epoch 1 @ 0 updates)\n"
    valid = '| valid | {"valid_loss": "5", "valid_ppl": "32", "valid_num_updates": "3"}\n'
    log.write_text(lines + valid * has_curves)
    lines += valid
    command = sys.executable, REPO / "recipes" / "lib" / "steps.py", "progress", log
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, input=lines, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, lines)
    assert done.stderr.count("not drawn") == 1 and "update 3: validation loss 5" in done.stderr
