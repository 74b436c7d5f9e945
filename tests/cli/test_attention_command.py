"""`vaswani attention`: the picture's numbers are the model's own, bad input is one line."""

import json

import pytest
import torch
from fairseq import checkpoint_utils

from vaswani_plugin.cli.__main__ import main

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def trained(toy_data_bin, run_fairseq, tmp_path_factory):
    folder = tmp_path_factory.mktemp("attention")
    run = run_fairseq(
        "train",
        *(toy_data_bin, "--arch", "vaswani_debug", "--max-tokens", 200, "--max-update", 3),
        *("--save-dir", folder, "--no-progress-bar", "--cpu", "--no-epoch-checkpoints"),
    )
    assert run.returncode == 0, run.stderr
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def words(toy_data_bin):
    return [line.split()[0] for line in (toy_data_bin / "dict.src.txt").open(encoding="utf-8")][:4]


@pytest.fixture
def attend(trained, toy_data_bin, tmp_path, capsys):
    def run(*args, output="heads.png"):
        where = ["--path", str(trained), "--data", str(toy_data_bin)]
        code = main(["attention", *where, "--output", str(tmp_path / output), *args])
        return code, capsys.readouterr(), tmp_path / output

    return run


@pytest.mark.parametrize("kind", ["cross", "encoder", "decoder"])
def test_weights_are_those_of_the_model(attend, trained, toy_data_bin, words, kind):
    source, target = words[:3], words[1:4]
    args = ["--source", " ".join(source), "--target", " ".join(target), "--kind", kind]
    code, printed, picture = attend(*args, "--layer", "1", "--format", "json")
    assert code == 0
    assert picture.read_bytes().startswith(PNG)
    found = json.loads(printed.out)
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(trained)], arg_overrides={"data": str(toy_data_bin)}
    )
    index = task.source_dictionary.index
    eos = task.source_dictionary.eos()
    src = torch.tensor([[*map(index, source), eos]])
    fed = torch.tensor([[eos, *map(index, target)]])
    expected = model.eval().attention_weights(src, fed)[kind][0][0]
    torch.testing.assert_close(torch.tensor(found["weights"]), expected, atol=1e-6, rtol=0)
    keys = ["</s>", *target] if kind == "decoder" else [*source, "</s>"]
    queries = {"cross": [*target, "</s>"], "encoder": keys, "decoder": keys}[kind]
    assert (found["queries"], found["keys"]) == (queries, keys)


def test_without_a_target_the_model_translates(attend, words):
    code, printed, picture = attend("--source", " ".join(words), "--format", "json")
    assert code == 0
    found = json.loads(printed.out)
    assert found["queries"][-1] == "</s>"
    rows = torch.tensor(found["weights"]).sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows))
    assert len(found["weights"]) == 4  # heads of vaswani_debug


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["--source", " "], "--source is an empty sentence"),
        (["--source", "x", "--layer", "3"], "--layer 3 is not in 1 ... 2"),
        (["--source", "x", "--path", "nowhere.pt"], "nowhere.pt does not exist"),
        (["--source", "x", "--bpe-codes", "no-codes"], "no-codes does not exist"),
    ],
)
def test_bad_input_is_one_line(attend, args, part):
    code, printed, picture = attend(*args)
    assert code == 1
    assert part in printed.err.splitlines()[-1]
    assert not picture.exists()


def test_a_stock_model_is_refused(attend, stock_checkpoint):
    code, printed, _ = attend("--source", "x", "--path", str(stock_checkpoint))
    assert code == 1
    assert "no per-head weights" in printed.err
