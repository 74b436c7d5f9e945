"""recipes/benchmarks/peers: the table, the drivers' settings, failures, and a whole tiny run."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import REPO
from tests.support.scripts import assert_one_line_error, run_bash

sys.path.insert(0, str(REPO / "recipes" / "benchmarks"))
sys.path.insert(0, str(REPO / "recipes" / "benchmarks" / "peers"))

import job as job_file  # noqa: E402
import peers  # noqa: E402
import peers_jobs  # noqa: E402
import peers_plan  # noqa: E402
import peers_runs  # noqa: E402
import peers_table  # noqa: E402
import run_eole  # noqa: E402
import run_huggingface  # noqa: E402
import run_joeynmt  # noqa: E402
import run_sockeye  # noqa: E402

from vaswani_plugin.errors import UserError  # noqa: E402

SIZES = {"tiny": (4096, 1, 2)}


def trained(seconds: float, tokens: int = 100) -> dict:
    """A report of a training whose first update is slow and does not count."""
    counted = {"seconds": seconds, "cpu_seconds": seconds / 2, "target": tokens}
    first = {"seconds": 99.0, "cpu_seconds": 99.0, "target": 1}
    return {
        "updates": [first, counted, counted],
        "peak_bytes": 2**30,
        "nll": 10 * math.log(5),
        "valid_tokens": 10,
    }


def decoded(seconds: float) -> dict:
    counts = {"sentences": 10, "tokens": 40, "peak_bytes": 2**29, "wall": 3.0}
    return {"seconds": seconds, "cpu_seconds": 2 * seconds, **counts}


def make_result() -> dict:
    reports = {
        "training tiny": {
            "ours": [trained(1.0), trained(2.0), trained(4.0)],
            "stock": [trained(5.0)],
            "eole": [],
        },
        "model": {"ours": [trained(1.0)], "stock": [trained(5.0)], "eole": []},
        "batch": {"ours": [decoded(2.0)], "stock": [decoded(1.0)]},
        "start": {"ours": [decoded(0.1)]},
    }
    return {
        "machine": "a processor",
        "threads": 2,
        "plan": {"rounds": 3, "target_tokens": 7, "sentences": 10, "singles": 1, "sizes": SIZES},
        "versions": {"torch": "2.13.0"},
        "rows": peers_table.rows_of(reports, {"ours": 3.0, "stock": 4.0}, SIZES),
        "titles": {"ours": "ours", "stock": "stock fairseq", "eole": "eole"},
        "differs": {"eole": "pre-norm"},
        "failures": [{"peer": "eole", "what": "installing", "reason": "no wheel"}],
    }


def test_rows_are_medians_without_the_warm_up() -> None:
    rows = make_result()["rows"]
    speed = rows["ours"]["training tiny"]
    assert speed["tokens_per_second"] == {"median": 50.0, "lowest": 25.0, "highest": 100.0}
    assert speed["tokens_per_cpu_second"]["median"] == 100.0
    assert speed["peak_mib"]["median"] == 1024
    assert rows["ours"]["model"]["perplexity"]["median"] == pytest.approx(5)
    assert rows["ours"]["model"]["target"]["median"] == 201
    assert rows["stock"]["batch"]["sentences_per_second"]["median"] == 10
    assert rows["stock"]["batch"]["tokens_per_sentence"]["median"] == 4
    assert rows["ours"]["start"]["seconds"]["median"] == 3.0
    assert "eole" not in rows


def test_the_table_names_what_is_better_and_what_failed() -> None:
    table = peers_table.as_markdown(make_result())
    assert "| training tiny, target tokens/s | 50.0 (25.0 to 100.0) | 20.0 | - |" in table
    better = next(line for line in table.split("\n") if line.startswith("- stock fairseq:"))
    assert "BLEU 4.00 against 3.00" in better and "in batch 10.0 against 5.00" in better
    assert "training tiny, target tokens/s" not in better  # ours is faster there
    assert "- eole, installing: no wheel" in table and "- eole: pre-norm" in table


def test_the_table_says_when_outputs_are_unequal() -> None:
    result = make_result()
    assert "Not to be compared" not in peers_table.as_markdown(result)
    result["rows"]["ours"]["batch"]["tokens_per_sentence"]["median"] = 0.0
    table = peers_table.as_markdown(result)
    assert "Not to be compared:\n\n- Outputs have 0.00 (ours) to 4.00 (stock fairseq)" in table


def make_bench(folder: Path) -> peers_plan.Bench:
    """A bench over a data folder with a line in every file."""
    for name in ("bpe", "tok", "data-bin"):
        (folder / "data" / name).mkdir(parents=True)
    for split in ("train", "valid", "test"):
        for language in ("en", "de"):
            (folder / "data" / "bpe" / f"{split}.{language}").write_text("a b@@ c\n")
            (folder / "data" / "tok" / f"{split}.{language}").write_text("a bc\n")
    (folder / "data" / "data-bin" / "dict.en.txt").write_text("a 2\nb@@ 1\nc 1\n")
    (folder / "data" / "data-bin" / "train.en-de.en.idx").write_bytes(b"")
    plan = peers_plan.Plan(
        rounds=2, sizes=SIZES, target_tokens=100, sentences=1, singles=1, timeout=60
    )
    data = folder / "data"
    return peers_plan.Bench(folder / "work", data, peers.pair_of(data), plan, 1)


def test_all_toolkits_train_the_same_model(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    jobs = {peer: peers_jobs.quality_job(bench, peer) for peer in ("joeynmt", "eole", "sockeye")}
    job = jobs["joeynmt"]
    # Eq. 3: the rate's peak is factor x d_model^-0.5 x warm-up^-0.5.
    peak = job["lr_factor"] * 128**-0.5 * job["warmup_updates"] ** -0.5
    assert peak == pytest.approx(peers_jobs.PEAK_RATE) == pytest.approx(job["peak_lr"])

    marian = run_huggingface.configuration(job, rows=7)
    assert (marian["d_model"], marian["encoder_ffn_dim"], marian["decoder_layers"]) == (128, 256, 4)
    assert marian["activation_function"] == "relu" and marian["share_encoder_decoder_embeddings"]

    joey = run_joeynmt.configuration(job)
    assert joey["model"]["decoder"]["layer_norm"] == "post" and joey["model"]["tied_softmax"]
    assert joey["model"]["encoder"]["ff_size"] == 256
    assert joey["training"]["learning_rate_factor"] == job["lr_factor"]
    assert joey["data"]["src"]["lang"] == "en" and joey["data"]["trg"]["lang"] == "de"

    eole = run_eole.configuration(jobs["eole"])
    assert eole["training"]["learning_rate"] == job["lr_factor"]
    assert eole["model"]["heads"] == 4 and eole["training"]["label_smoothing"] == 0.1

    flags = run_sockeye.flags(jobs["sockeye"])
    rate = float(flags[flags.index("--initial-learning-rate") + 1])
    assert rate / job["warmup_updates"] ** 0.5 == pytest.approx(peers_jobs.PEAK_RATE)
    assert flags[flags.index("--transformer-postprocess") + 1] == "drn"
    assert flags[flags.index("--num-layers") + 1] == "4:4"


def test_ours_has_the_plugin_and_stock_has_not(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    ours, stock = (
        peers_jobs.training_job(bench, peer, "tiny")["flags"] for peer in ("ours", "stock")
    )
    assert "--user-dir" in ours and "--user-dir" not in stock
    assert ours[ours.index("--max-tokens") + 1] == stock[stock.index("--max-tokens") + 1] == "4096"
    assert stock[stock.index("--encoder-ffn-embed-dim") + 1] == "256"
    assert stock[stock.index("--lr") + 1] == repr(peers_jobs.PEAK_RATE)
    assert "PYTHONPATH" in peers_runs.environment(bench, "stock")
    assert peers_runs.environment(bench, "stock")["PYTHONPATH"] == ""


def test_the_watch_ends_a_training_by_updates_or_tokens() -> None:
    watch = job_file.Watch({"warm_up": 1, "updates": 1})
    watch.count(5)
    watch.update()
    with pytest.raises(job_file.Enough):
        watch.update()
    assert [row["target"] for row in watch.rows] == [5, 0] and watch.peak > 2**20
    watch = job_file.Watch({"warm_up": 1, "updates": 1, "target_tokens": 11})
    for _ in range(2):
        watch.count(5)
        watch.update()  # by tokens, not by updates
    watch.count(5)
    with pytest.raises(job_file.Enough):
        watch.update()


def test_batches_hold_every_sentence_once_within_the_budget() -> None:
    lengths = [3, 9, 1, 4, 4, 8, 2]
    groups = list(job_file.batches(lengths, 9))
    assert sorted(n for group in groups for n in group) == list(range(7))
    assert all(len(group) * max(lengths[n] for n in group) <= 9 for group in groups)
    assert len(groups) < 7


def test_ids_are_the_dictionarys_with_unknown_words(tmp_path: Path) -> None:
    (tmp_path / "dict").write_text("a 2\nb@@ 1\n", encoding="utf-8")
    ids = job_file.ids_of(str(tmp_path / "dict"))
    assert job_file.encode(["b@@ a x"], ids) == [[5, 4, 3, 2]]


def test_a_peer_that_fails_is_named_and_the_rest_goes_on(tmp_path: Path, monkeypatch) -> None:
    """Drivers of a few lines take the places of two peers; a third can't be installed."""
    bench, drivers = make_bench(tmp_path), tmp_path / "drivers"
    drivers.mkdir()
    (drivers / "job.py").write_text("")
    report = {**trained(1.0), **decoded(1.0)}
    (drivers / "run_ours.py").write_text(
        "import json, sys\n"
        "job = json.load(open(sys.argv[1]))\n"
        "if job['kind'] == 'decode': open(job['output'], 'w').write('a b@@ c\\n')\n"
        f"json.dump({report!r}, open(job['report'], 'w'))\n"
    )
    (drivers / "run_fairseq.py").write_text("import sys\nsys.exit('out of luck')\n")
    monkeypatch.setattr(peers_runs, "DRIVERS", drivers)

    def refuse(work: Path, name: str) -> str:
        raise UserError(f"not installed: no {name}")

    monkeypatch.setattr(peers, "make_environment", refuse)
    result = peers.compare(bench, ["stock", "ours", "eole"])
    failed = {(each["peer"], each["what"]): each["reason"] for each in result["failures"]}
    assert failed["eole", "installing"] == "not installed: no eole"
    assert "exit code 1: out of luck" in failed["stock", "training tiny"]
    assert set(failed) == {
        *(("eole", "installing"), ("stock", "training tiny"), ("stock", "model"))
    }
    assert set(result["rows"]) == {"ours"}
    assert {"training tiny", "model", "batch", "one", "start", "bleu"} == set(
        result["rows"]["ours"]
    )
    assert "- eole, installing: not installed: no eole" in peers_table.as_markdown(result)

    # Finished measurements are skipped: a driver that would fail now is not asked, while its code
    # is the same.
    monkeypatch.setattr(peers_runs, "digest", lambda paths: "x")
    fresh = replace(bench, failures=[], pythons={})
    peers.compare(fresh, ["ours"])
    (drivers / "run_ours.py").write_text("import sys\nsys.exit('asked again')\n")
    again = replace(bench, failures=[], pythons={})
    assert peers.compare(again, ["ours"])["failures"] == []


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--rounds", "0"], "--rounds 0: must be at least 1"),
        (["--threads", "-1"], "--threads -1: must be at least 1"),
        (["--peers", "ctranslate2"], "--peers: ctranslate2 decodes our model; add ours"),
    ],
)
def test_bad_flags(flags: list[str], message: str, tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    with pytest.raises(UserError, match=message):
        peers.main(["--data", str(bench.data), "--work", str(tmp_path / "out"), *flags])
    assert not (tmp_path / "out").exists()


def test_a_folder_without_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no data-bin.*bash recipes/multi30k.sh"):
        peers.pair_of(tmp_path)


@pytest.mark.slow
def test_ours_and_stock_from_end_to_end(tmp_path: Path) -> None:
    data, work = tmp_path / "data", tmp_path / "a b"
    made = ("recipes/multi30k.sh", "--scale", "tiny", "--work", data, "--until", "binarize")
    done = run_bash(*made, cwd=REPO)
    assert done.returncode == 0, done.stderr
    command = ("recipes/benchmarks/peers.sh", "--data", data, "--work", work, "--quick")
    command += ("--peers", "ours", "stock", "--sizes", "debug", "--rounds", 1, "--threads", 1)
    done = run_bash(*command, "--target-tokens", 2000, cwd=REPO)
    assert done.returncode == 0, done.stderr
    result = json.loads((work / "peers.json").read_text())
    assert result["failures"] == []
    for peer in ("ours", "stock"):
        assert 1 < result["rows"][peer]["model"]["perplexity"]["median"] < 10_000
        assert result["rows"][peer]["one"]["sentences_per_second"]["median"] > 0
    again = run_bash(*command, "--target-tokens", 2000, cwd=REPO)
    assert "..." not in again.stderr  # everything was done before
    wrong = run_bash(*command, "--rounds", 0, cwd=REPO)
    assert_one_line_error(wrong, "--rounds 0")
