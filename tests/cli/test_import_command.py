"""`vaswani import`: a checkpoint that fairseq-train wrote decodes alike as one of ours."""

import json

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.sequence_generator import SequenceGenerator

from tests.support.commands import vaswani
from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer


def test_hypotheses_are_those_of_fairseq(stock_checkpoint, toy_data_bin, tmp_path):
    output = tmp_path / "new" / "ours.pt"
    given = ("--checkpoint", stock_checkpoint, "--data-bin", toy_data_bin, "--output", output)
    shown = json.loads(vaswani("import", "--format", "json", *given).out)
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
    # As many words in another order: only the digest tells.
    for language in ("src", "tgt"):
        rows = (toy_data_bin / f"dict.{language}.txt").read_text(encoding="utf-8").split("\n")[:-1]
        text = "".join(f"{row}\n" for row in reversed(rows))
        (tmp_path / f"dict.{language}.txt").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="not the one that the checkpoint was trained with"):
        checkpoint_utils.load_model_ensemble_and_task(
            [str(output)], arg_overrides={"data": str(tmp_path)}
        )


def test_a_folder_that_names_no_languages(stock_checkpoint, tmp_path):
    given = ("--data-bin", tmp_path, "--output", tmp_path / "ours.pt")
    done = vaswani("import", "--checkpoint", stock_checkpoint, *given)
    assert "name its languages; `vaswani import` takes --source-lang" in done.error
    assert not list(tmp_path.iterdir())
