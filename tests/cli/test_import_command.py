"""`vaswani import`: a checkpoint that fairseq-train wrote decodes alike as one of ours."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.sequence_generator import SequenceGenerator

from tests.support.commands import Ended, vaswani
from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer


def run_import(checkpoint: Path, data: Path, output: Path, *flags: str) -> Ended:
    where = ("--checkpoint", checkpoint, "--data-bin", data, "--output", output)
    return vaswani("import", *where, *flags)


@pytest.fixture
def refused(stock_checkpoint, toy_data_bin, tmp_path):
    """``refused(words, checkpoint=…, data=…)``: one line with these words, and nothing written."""

    def check(*words: str, checkpoint: Path = stock_checkpoint, data: Path = toy_data_bin) -> None:
        output = tmp_path / "ours.pt"
        output.write_text("kept", encoding="utf-8")
        error = run_import(checkpoint, data, output).error
        assert all(word in error for word in words), error
        assert output.read_text(encoding="utf-8") == "kept"
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]

    return check


def test_hypotheses_are_those_of_fairseq(stock_checkpoint, toy_data_bin, tmp_path):
    output = tmp_path / "new" / "ours.pt"
    done = run_import(stock_checkpoint, toy_data_bin, output, "--format", "json")
    shown = json.loads(done.out)
    assert shown["output"] == str(output) and shown["model"]["d_model"] == 16
    models = {}
    for path in (stock_checkpoint, output):
        (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(path)])
        models[path] = model.eval()
    assert isinstance(models[output], VaswaniTransformer)
    assert cfg.task._name == "vaswani_translation" and cfg.task.source_lang == "src"
    dictionary = task.source_dictionary
    words = torch.randint(4, len(dictionary), (6, 5), generator=torch.Generator().manual_seed(1))
    source = torch.cat((words, torch.full((6, 1), dictionary.eos())), dim=1)
    sample = {"net_input": {"src_tokens": source, "src_lengths": torch.full((6,), 6)}}
    found = [
        SequenceGenerator([model], dictionary, beam_size=5, max_len_b=20).generate([model], sample)
        for model in models.values()
    ]
    for theirs, ours in zip(*found, strict=True):
        assert [h["tokens"].tolist() for h in ours] == [h["tokens"].tolist() for h in theirs]
        for mine, stock in zip(ours, theirs, strict=True):
            assert float(mine["score"]) == pytest.approx(float(stock["score"]), abs=1e-5)


def test_dictionaries_are_remembered(stock_checkpoint, toy_data_bin, tmp_path):
    """As many words, but in another order: only the digest differs."""
    other = tmp_path / "other"
    shutil.copytree(toy_data_bin, other)
    for language in ("src", "tgt"):
        path = other / f"dict.{language}.txt"
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        path.write_text("\n".join(reversed(lines)) + "\n", encoding="utf-8")
    assert run_import(stock_checkpoint, toy_data_bin, tmp_path / "ours.pt").code == 0
    with pytest.raises(ValueError, match="not the one that the checkpoint was trained with"):
        checkpoint_utils.load_model_ensemble_and_task(
            [str(tmp_path / "ours.pt")], arg_overrides={"data": str(other)}
        )


def test_folders_without_dictionaries(refused, tmp_path):
    refused("absent: no folder with dictionaries", data=tmp_path / "absent")
    broken = tmp_path / "broken"
    broken.mkdir()
    refused("nor the files of", "broken name its languages", "--source-lang", data=broken)
    (broken / "train.src-tgt.src.idx").touch()
    refused("dict.src.txt: No such file", data=broken)
    for content in (b"no count\xff\n", b"word\n", b"word 1\nword 2\n"):
        (broken / "dict.src.txt").write_bytes(content)
        refused(f"{broken}/dict.src.txt:", "not a dictionary", data=broken)
