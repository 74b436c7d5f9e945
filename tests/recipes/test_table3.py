"""recipes/table3.sh: its rows, their scaling, two rows from end to end, restarts, the table."""

import argparse
import csv
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.scripts import ROOT, assert_one_line_error, run_bash

sys.path.insert(0, str(ROOT / "recipes" / "lib"))

import table3_report
import table3_rows
import table3_train
from table3_rows import ROWS, Settings, Training, choose_rows, sizes, training_flags, trainings_of

from vaswani_plugin.errors import UserError

# The paper's Table 3, typed from it: PPL, BLEU, parameters in millions.
PUBLISHED = """
base 4.92 25.8 65       a_h1 5.29 24.9 -        a_h4 5.00 25.5 -        a_h16 4.91 25.8 -
a_h32 5.01 25.4 -       b_dk16 5.16 25.1 58     b_dk32 5.01 25.4 60     c_n2 6.11 23.7 36
c_n4 5.19 25.3 50       c_n8 4.88 25.5 80       c_d256 5.75 24.5 28     c_d1024 4.66 26.0 168
c_ff1024 5.12 25.4 53   c_ff4096 4.75 26.2 90   d_drop00 5.77 24.6 -    d_drop02 4.95 25.5 -
d_eps00 4.67 25.3 -     d_eps02 5.47 25.7 -     e_learned 4.92 25.7 -   big 4.33 26.4 213
""".split()
FULL = Settings(
    width_divisor=1, depth_divisor=1, max_tokens=4096, update_freq=8, max_update=100_000,
    max_update_big=300_000, warmup_updates=4000, lr_factor=1.0, gpus_each=0,
)  # fmt: skip
TINY = Settings(**vars(FULL) | {"width_divisor": 8, "depth_divisor": 2, "max_update_big": 100_000})


def row(name: str) -> table3_rows.Row:
    (found,) = choose_rows([name])
    return found


def training(name: str, seed: int = 1) -> Training:
    return Training(row(name), seed)


def test_seeds_make_trainings() -> None:
    rows = choose_rows(["base", "b"])
    names = [each.name for each in trainings_of(rows, "1,2", "1,2,7")]
    assert names == "base-1 b_dk16-1 b_dk32-1 base-2 b_dk16-2 b_dk32-2 base-7".split()
    for text in ("", "1,", "1,1", "one", "1 2", "-1"):
        with pytest.raises(UserError, match=f"seeds {text}: give different whole numbers"):
            trainings_of(rows, text, "1")


def test_the_published_figures() -> None:
    assert len(ROWS) * 4 == len(PUBLISHED)
    for each, name, ppl, bleu, count in zip(
        ROWS, *(PUBLISHED[i::4] for i in range(4)), strict=True
    ):
        assert (each.name, each.ppl, each.bleu) == (name, float(ppl), float(bleu))
        if count != "-":
            assert table3_rows.printed_parameters(each) == int(count)


def test_rows_are_chosen_by_name_and_letter() -> None:
    assert choose_rows([]) == list(ROWS)
    names = [each.name for each in choose_rows(["B", "vaswani_c_n2", "base"])]
    assert names == ["base", "b_dk16", "b_dk32", "c_n2"]
    with pytest.raises(UserError, match="c_n3: no row of Table 3; the rows are base a_h1"):
        choose_rows(["c_n3"])


def test_all_rows_are_scaled_alike() -> None:
    for each in ROWS:
        full, tiny = sizes(each, FULL), sizes(each, TINY)
        for name in ("d_model", "d_ff", "d_k", "d_v"):
            assert tiny[name] * 8 == full[name]
        for name in ("encoder_layers", "decoder_layers"):
            assert tiny[name] * 2 == full[name]
        assert [tiny[n] for n in ("heads", "dropout")] == [full[n] for n in ("heads", "dropout")]
    for each in choose_rows(["a", "base", "big"]):
        tiny = sizes(each, TINY)
        assert tiny["heads"] * tiny["d_k"] == tiny["d_model"]
    shares = [sizes(row(n), TINY)["d_k"] / sizes(row("base"), TINY)["d_k"] for n in ("b_dk16",)]
    assert shares == [16 / 64]
    with pytest.raises(UserError, match="--width-divisor 32 does not divide d_k of row a_h32, 16"):
        sizes(row("a_h32"), Settings(**vars(FULL) | {"width_divisor": 32}))


def test_flags_state_what_differs() -> None:
    flags = " ".join(training_flags(row("base"), FULL, 1))
    assert flags == (
        "--arch vaswani_base --max-tokens 4096 --update-freq 8 --warmup-updates 4000 "
        "--lr-factor 1.0 --seed 1 --max-update 100000"
    )
    assert "--max-update 300000" in " ".join(training_flags(row("big"), FULL, 1))
    flags = " ".join(training_flags(row("d_eps02"), TINY, 1))
    assert "--arch vaswani_base --d-model 64 --d-ff 256 --d-k 8 --d-v 8" in flags
    assert "--encoder-layers 3 --decoder-layers 3 --label-smoothing 0.2" in flags
    # A flag of dropout or positions would hide what the architecture says.
    assert "--dropout" not in flags and "--positions" not in flags


def parameters(settings: dict, vocabulary: int) -> int:
    """By the formula of the paper's counts: biases on all linears, one shared matrix."""
    d, ff, n = settings["d_model"], settings["d_ff"], settings["encoder_layers"]
    inner_k, inner_v = (settings["heads"] * settings[name] for name in ("d_k", "d_v"))
    attention = 2 * (d + 1) * inner_k + (d + 1) * inner_v + (inner_v + 1) * d
    feed_forward = (d + 1) * ff + (ff + 1) * d
    return n * (3 * attention + 2 * feed_forward + 5 * 2 * d) + vocabulary * d


SMALL = ("--scale", "tiny", "--cpu", "--width-divisor", 16, "--max-tokens", 200, "--max-update", 6)


@pytest.fixture(scope="module")
def finished(toy_data_bin, tmp_path_factory):
    """Rows base and b_dk16: the process and the work folder."""
    work = tmp_path_factory.mktemp("my table")
    flags = (*SMALL, "--data-bin", toy_data_bin, "--work", work)
    done = run_bash(ROOT / "recipes" / "table3.sh", "base", "b_dk16", *flags, cwd=work)
    assert done.returncode == 0, done.stderr[-3000:]
    return done, work


def test_two_rows_from_end_to_end(finished, toy_data_bin) -> None:
    done, work = finished
    assert "table3: base-1: PPL " in done.stderr and "b_dk16-1: PPL" in done.stderr
    result = json.loads((work / "result.json").read_text())
    assert [line["row"] for line in result["rows"]] == ["base", "b_dk16"]
    vocabulary = len((toy_data_bin / "dict.src.txt").read_text().split("\n")) - 1 + 4
    for line in result["rows"]:
        folder = work / "rows" / f"{line['row']}-1"
        found = json.loads((folder / "result.json").read_text())
        assert found["updates"] == 6
        assert found["parameters"] == parameters(found["sizes"], vocabulary) == line["parameters"]
        log = (folder / "logs" / "train.log").read_text(encoding="utf-8")
        valid = [part for part in log.split("\n") if "valid on 'valid' subset" in part][-1]
        assert f"| ppl {found['ppl']:g} |" in valid and "num_updates 6" in valid
        assert (folder / "generate.txt").read_text(encoding="utf-8").count("\nH-") == 20
    last = done.stdout.strip().split("\n")[-1]
    assert last.startswith("table3, ") and last.endswith(f": {work}/table3.md")
    assert "2 of 20 rows, base PPL" in last
    assert (work / "table3.png").read_bytes().startswith(b"\x89PNG")


def test_bleu_is_that_of_the_validation_set(finished) -> None:
    import sacrebleu

    folder = finished[1] / "rows" / "base-1"
    lines = (folder / "generate.txt").read_text(encoding="utf-8").split("\n")
    parts = [line.split("\t") for line in lines]
    target = {p[0][2:]: p[1] for p in parts if p[0].startswith("T-")}
    output = {p[0][2:]: p[2] for p in parts if p[0].startswith("H-")}
    assert target.keys() == output.keys() and len(target) == 20
    texts = [output[n] for n in target]
    expected = sacrebleu.corpus_bleu(
        texts, [list(target.values())], smooth_method="none", tokenize="none", force=True
    )
    found = json.loads((folder / "result.json").read_text())["bleu"]
    assert found == pytest.approx(expected.score)


def test_the_same_command_does_nothing(finished, toy_data_bin) -> None:
    work = finished[1]
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*") if path.is_file()}
    flags = (*SMALL, "--data-bin", toy_data_bin, "--work", work)
    done = run_bash(ROOT / "recipes" / "table3.sh", "base", "b_dk16", *flags, cwd=work)
    assert done.returncode == 0 and done.stderr.count("done before") == 3
    assert {path: path.stat().st_mtime_ns for path in before} == before


def arguments(work: Path, **changes: object) -> argparse.Namespace:
    """What `table3_train.main` makes of its command line."""
    plain = vars(TINY) | {"work": work, "data_key": "d", "data_bin": Path("bin")}
    plain |= {
        "parallel": 1,
        "threads": 1,
        "seeds": "1",
        "base_seeds": "1",
        "post_process": "subword_nmt",
    }
    return argparse.Namespace(**plain | changes)


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Commands that write what fairseq's would, and remember what they were given."""
    seen = SimpleNamespace(commands=[], devices=[], fail="", lock=threading.Lock())
    log = "| fairseq_cli.train | num. shared model params: 1,000 (x)\n"
    log += "| train_inner | epoch 001: 1 / 2 loss=1, wps=5, wpb=9, bsz=3, num_updates={n}, wall=2\n"
    log += "| valid | epoch 001 | valid on 'valid' subset | loss 2 | ppl 7.5 | num_updates {n}\n"
    barrier = threading.Barrier(2, timeout=30)

    def execute(command: list[str], output: Path, environment: dict[str, str]) -> None:
        with seen.lock:
            seen.commands.append(command)
        output.parent.mkdir(parents=True, exist_ok=True)
        if command[0] == "fairseq-generate":
            output.write_text("T-0\ta b c d e\nH-0\t-1\ta b c d e\nD-0\t-1\ta b c d e\n")
            return
        if "CUDA_VISIBLE_DEVICES" in environment:
            barrier.wait()  # two rows are at work in this moment
            with seen.lock:
                seen.devices.append(environment["CUDA_VISIBLE_DEVICES"])
        with open(output, "a") as stream:
            stream.write(log.format(n=command[command.index("--max-update") + 1]))
        if seen.fail and seen.fail in str(output):
            raise UserError(f"{output}: fairseq-train ended with 1: out of memory")

    monkeypatch.setattr(table3_train, "execute", execute)
    return seen


def test_a_row_goes_on_or_begins_again(stand_ins, tmp_path) -> None:
    args, folder = arguments(tmp_path), tmp_path / "rows" / "base-1"
    stand_ins.fail = "base"
    with pytest.raises(UserError, match="these trainings failed: base-1"):
        table3_train.train_all([training("base")], args)
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "checkpoint_last.pt").write_text("of an earlier start")
    stand_ins.fail = ""
    table3_train.train_all([training("base")], args)
    assert (folder / "checkpoints" / "checkpoint_last.pt").exists()
    result = json.loads((folder / "result.json").read_text())
    assert (result["ppl"], result["bleu"], result["parameters"]) == (7.5, 100.0, 1000)
    # Trained, and cut off in the translation: not trained again.
    (folder / "result.json").unlink()
    stand_ins.commands.clear()
    table3_train.train_all([training("base")], args)
    assert [command[0] for command in stand_ins.commands] == ["fairseq-generate"]
    # Other data: from the start.
    table3_train.train_all([training("base")], arguments(tmp_path, data_key="other"))
    assert not (folder / "checkpoints").exists()
    kept = tmp_path / "rows" / "base-1.1" / "checkpoints" / "checkpoint_last.pt"
    assert kept.read_text() == "of an earlier start"
    assert stand_ins.commands[1][0] == "fairseq-train"
    found = training("base").result(tmp_path, TINY, "other")
    assert found["key"] == training("base").key(TINY, "other")
    assert training("base").result(tmp_path, TINY, "d") is None
    assert training("base", 2).result(tmp_path, TINY, "other") is None


def test_rows_may_be_added(stand_ins, tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "dict.en.txt").write_text("a 1\n", encoding="utf-8")
    flags = [f"--{k.replace('_', '-')}={v}" for k, v in vars(TINY).items()]
    flags += [f"--work={tmp_path}", f"--data-bin={tmp_path}", "--data-key=d"]
    flags += ["--parallel=1", "--threads=1", "--seeds=1"]
    for rows, base_seeds in ((["base"], "1"), (["base", "b"], "1,2"), (["b"], "1")):
        given = [*rows, *flags, f"--base-seeds={base_seeds}"]
        monkeypatch.setattr(sys, "argv", ["table3_train.py", *given])
        table3_train.main()
    trained = [command for command in stand_ins.commands if command[0] == "fairseq-train"]
    assert [command[command.index("--seed") + 1] for command in trained] == ["1", "1", "1", "2"]
    shown = capsys.readouterr().err
    assert "1 of 4 trainings were finished before" in shown
    assert "2 of 2 trainings were finished before" in shown


def test_a_failing_row_leaves_the_others(stand_ins, tmp_path, capsys) -> None:
    stand_ins.fail = "a_h4"
    with pytest.raises(
        UserError, match="these trainings failed: a_h4-1; the same command tries again"
    ):
        table3_train.train_all(trainings_of(choose_rows(["a"]), "1", "1"), arguments(tmp_path))
    assert "a_h4-1: error: " in capsys.readouterr().err
    done = {path.parent.name for path in tmp_path.glob("rows/*/result.json")}
    assert done == {"a_h1-1", "a_h16-1", "a_h32-1"}


def test_rows_in_parallel_have_gpus_of_their_own(stand_ins, tmp_path) -> None:
    args = arguments(tmp_path, gpus_each=2, parallel=2)
    table3_train.train_all(trainings_of(choose_rows(["a"]), "1", "1"), args)
    assert sorted(stand_ins.devices) == ["0,1", "0,1", "2,3", "2,3"]
    for command in stand_ins.commands:
        assert "--cpu" not in command
        if command[0] == "fairseq-train":
            assert command[command.index("--distributed-world-size") + 1] == "2"


def test_a_training_that_did_not_end_is_told(tmp_path) -> None:
    log = tmp_path / "train.log"
    log.write_text("| valid | epoch 001 | valid on 'valid' subset | ppl 7.5 | num_updates 5\n")
    with pytest.raises(UserError, match="train.log: no validation after 6 updates"):
        table3_train.read_figures(log, 6)


def test_the_kind_of_word_pieces_is_seen(tmp_path) -> None:
    (tmp_path / "dict.en.txt").write_text("a@@ 1\nb 1\n", encoding="utf-8")
    assert table3_train.subword_flag(tmp_path) == "subword_nmt"
    (tmp_path / "dict.de.txt").write_text("a 1\n\u2581b 1\n", encoding="utf-8")
    assert table3_train.subword_flag(tmp_path) == "sentencepiece"
    with pytest.raises(UserError, match="absent: no dict"):
        table3_train.subword_flag(tmp_path / "absent")


def write_results(work: Path, figures: dict[str, tuple[float, float]], seed: int = 1) -> None:
    for name, (ppl, bleu) in figures.items():
        folder = training(name, seed).folder(work)
        folder.mkdir(parents=True)
        result = {"key": training(name, seed).key(TINY, "d"), "sizes": sizes(row(name), TINY)}
        result |= {"updates": 900, "seconds": 60, "parameters": 1_234_567, "ppl": ppl, "bleu": bleu}
        (folder / "result.json").write_text(json.dumps(result))


def report(work: Path, monkeypatch: pytest.MonkeyPatch, seeds="1", base_seeds="1") -> dict:
    flags = [f"--{k.replace('_', '-')}={v}" for k, v in vars(TINY).items()]
    flags += [f"--work={work}", "--data-key=d", "--title=toy"]
    flags += [f"--seeds={seeds}", f"--base-seeds={base_seeds}"]
    monkeypatch.setattr(sys, "argv", ["table3_report.py", *flags])
    table3_report.main()
    return json.loads((work / "result.json").read_text())


def test_the_table(tmp_path, monkeypatch) -> None:
    # The order of the changes is the paper's in PPL; in BLEU just one pair is swapped.
    write_results(tmp_path, {"base": (20, 10), "c_n2": (30, 5), "c_n8": (18, 12), "big": (16, 11)})
    result = report(tmp_path, monkeypatch)
    text = (tmp_path / "table3.md").read_text()
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in text.split("\n")[2:-1]]
    head, _, base, c_n2, _, big = cells
    assert head[:8] == ["", "N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop"]
    assert base[:11] == "base 3 64 256 8 8 8 0.1 0.1 sinusoidal 900".split()
    assert base[11:] == "20.00 4.92 10.0 25.8 1.23 65 1.000 1.000 +0.0 +0.0".split()
    # As the paper prints: what is as in base is blank.
    assert c_n2[:11] == ["c_n2", "1", *[""] * 9]
    assert c_n2[11:] == "30.00 6.11 5.0 23.7 1.23 36 1.500 1.242 -5.0 -2.1".split()
    assert big[:8] == ["big", "", "128", "512", "16", "", "", "0.3"]
    with open(tmp_path / "table3.csv", newline="", encoding="utf-8") as stream:
        rows = {line["row"]: line for line in csv.DictReader(stream)}
    assert float(rows["c_n8"]["ppl_ratio"]) == 0.9
    assert float(rows["c_n8"]["paper_ppl_ratio"]) == pytest.approx(4.88 / 4.92)
    # Spearman's: 1 - 6 sum of squared differences of ranks / (n (n^2 - 1)). BLEU: the paper's
    # ranks are 1, 2, 3 (c_n2, c_n8, big), ours 1, 3, 2.
    assert result["rank_correlation"]["ppl_ratio"] == pytest.approx(1.0)
    assert result["rank_correlation"]["bleu_change"] == pytest.approx(1 - 6 * 2 / (3 * 8))
    assert (tmp_path / "table3.png").read_bytes().startswith(b"\x89PNG")


def test_seeds_give_standard_errors(tmp_path, monkeypatch) -> None:
    """Against the definitions, typed out with NumPy: four seeds of base, two of each other row."""
    base = [(20.0, 10.0), (20.4, 10.6), (19.8, 9.8), (20.2, 10.4)]
    others = {
        "c_n2": [(30.0, 5.0), (31.0, 5.4)],
        "c_n8": [(18.0, 12.0), (18.2, 12.4)],
        "d_eps00": [(20.1, 10.2), (20.3, 10.0)],  # within the noise
        "big": [(16.0, 9.0), (16.4, 8.6)],  # the paper's BLEU is on the other side
    }
    for seed in range(1, 5):
        write_results(tmp_path, {"base": base[seed - 1]}, seed)
        if seed < 3:
            write_results(tmp_path, {name: both[seed - 1] for name, both in others.items()}, seed)
    result = report(tmp_path, monkeypatch, seeds="1,2", base_seeds="1,2,3,4")
    lines = {line["row"]: line for line in result["rows"]}
    groups = [base, *others.values()]
    for column, name in ((0, "ppl_ratio"), (1, "bleu_change")):
        values = [[(np.log(p), b)[column] for p, b in group] for group in groups]
        squares = sum(len(v) * np.var(v) for v in values)
        deviation = np.sqrt(squares / (3 + 4))  # degrees of freedom: 4 - 1 of base, 2 - 1 of each
        for key, of_row in zip(others, values[1:], strict=True):
            change = np.mean(of_row) - np.mean(values[0])
            error = deviation * np.sqrt(1 / 2 + 1 / 4)
            if column == 0:
                change, error = np.exp(change), np.exp(change) * error
            assert lines[key][name] == pytest.approx(change)
            assert lines[key][name + "_se"] == pytest.approx(error)
    assert lines["base"]["bleu_change_se"] is None and lines["base"]["seeds"] == 4
    found = result["rank_correlation"]
    # The paper's ranks are 1, 2, 3 (c_n2, c_n8, big), ours 1, 3, 2.
    assert found["bleu_change_clear"] == pytest.approx(0.5)
    assert found["ppl_ratio_clear"] == pytest.approx(1.0)
    text = (tmp_path / "table3.md").read_text(encoding="utf-8")
    assert "BLEU differs from base's by over two standard errors, as in the paper: c_n2; " in text
    assert "on the other side: c_n8 big." in text
    assert "of the 3 clear changes of BLEU 0.50" in result["summary"]
    shown = f"{lines['c_n2']['bleu_change']:+.1f} \u00b1 {lines['c_n2']['bleu_change_se']:.1f}"
    assert f" {shown} |" in text


def test_a_table_without_base_has_no_changes(tmp_path, monkeypatch) -> None:
    write_results(tmp_path, {"c_n2": (30, 5), "c_n8": (18, 12)})
    result = report(tmp_path, monkeypatch)
    assert [line["ppl_ratio"] for line in result["rows"]] == [None, None]
    assert not (tmp_path / "table3.png").exists()
    (tmp_path / "rows" / "c_n2-1" / "result.json").write_text("{")
    with pytest.raises(UserError, match="c_n2.*result.json: not JSON"):
        report(tmp_path, monkeypatch)


def test_no_row_is_no_table(tmp_path, monkeypatch) -> None:
    with pytest.raises(UserError, match="rows: no row is finished with these settings and data"):
        report(tmp_path, monkeypatch)


def dry_run(*args: object) -> subprocess.CompletedProcess:
    # No environment: only what the shell says.
    script = ROOT / "recipes" / "table3.sh"
    return run_bash(script, *args, "--dry-run", VASWANI_VENV=os.devnull)


def test_the_full_scale_is_the_papers(tmp_path) -> None:
    done = dry_run("--work", tmp_path / "w", "--gpus", 8)
    assert done.returncode == 0, done.stderr
    assert "wmt14_en_de.sh --padding-factor 8192" in done.stderr
    assert "--max-tokens 4096 --update-freq 8 --max-update 100000 --max-update-big 300000" in (
        done.stderr
    )
    assert "--gpus-each 1" in done.stderr and "--parallel 8" in done.stderr
    done = dry_run("base", "--work", tmp_path / "w", "--gpus", 8, "--parallel", 2)
    assert "--update-freq 2 " in done.stderr and "table3_train.py base --work" in done.stderr
    assert not (tmp_path / "w").exists()


def test_bad_options(tmp_path) -> None:
    for flags, message in (
        (["--gpus", 3, "--parallel", 2], "--parallel 2: --gpus 3 can't be shared out evenly"),
        (["--corpus", "nonsense"], "--corpus nonsense: must be multi30k, tatoeba"),
        (["--data-bin", tmp_path], "no binarized data (dict.*.txt) there"),
        (["--seeds", "1;2"], "--seeds 1;2: must be whole numbers from 1 on, such as 1,2"),
        (["--seeds", "1,11,1"], "--seeds 1,11,1: names 1 twice"),
        (["--pair", "de-en"], "--pair de-en: --corpus wmt14_en_de is en-de"),
        (["--max-update", "0"], "--max-update 0: must be a whole number"),
        (["--scale", "tiny", "base"], "base: no option of this recipe"),
    ):
        assert_one_line_error(dry_run("--work", tmp_path / "w", *flags), message)
