"""A bundle gives back the checkpoint's model and the task that decodes as the paper does."""

import re
import shutil

import pytest
import torch
from bundle import make_bundle, parse_settings
from toy_bundle import write_toy_bundle

from vaswani_plugin.export.fairseq_engine import FairseqBundle
from vaswani_plugin.fairseq_plugin.tasks.translation import VaswaniTranslationTask


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_toy_bundle(tmp_path_factory.mktemp("bundle"))


def test_the_model_is_the_checkpoints(folder):
    model, task = FairseqBundle.load(folder).load_model()
    expected = torch.load(folder / "model.pt")["model"]
    found = model.state_dict()
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        assert torch.equal(found[name], weight), name
    assert not model.training
    words = [line.split()[0] for line in (folder / "dict.en.txt").open(encoding="utf-8")]
    assert task.source_dictionary.symbols[4:] == words
    assert (task.cfg.source_lang, task.cfg.target_lang) == ("en", "de")


def test_a_model_of_fairseqs_own_task_gets_ours(stock_checkpoint, toy_data_bin, tmp_path):
    pairs = ["lowercase=false", "normalize_punctuation=false", "tokenizer=none", "subwords=none"]
    settings = parse_settings(pairs, "src", "tgt")
    make_bundle(stock_checkpoint, toy_data_bin, settings, tmp_path / "model")
    model, task = FairseqBundle.load(tmp_path / "model").load_model()
    assert type(task) is VaswaniTranslationTask
    assert task.cfg.length_penalty == "paper"
    assert "encoder.embed_tokens.weight" in model.state_dict()


def test_how_it_was_decoded_in_training_does_not_matter(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    state = torch.load(folder / "model.pt")
    state["cfg"]["task"] |= {"length_penalty": "fairseq", "eval_bleu": True}
    torch.save(state, tmp_path / "model" / "model.pt")
    _, task = FairseqBundle.load(tmp_path / "model").load_model()
    assert task.cfg.length_penalty == "paper" and not task.cfg.eval_bleu


def test_a_model_of_another_task_is_named(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    state = torch.load(folder / "model.pt")
    state["cfg"]["task"] |= {"_name": "language_modeling"}
    torch.save(state, tmp_path / "model" / "model.pt")
    with pytest.raises(ValueError, match="trained by --task language_modeling: .* translation"):
        FairseqBundle.load(tmp_path / "model").load_model()


def test_what_is_missing_is_named(folder, tmp_path):
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path} is not a bundle")):
        FairseqBundle.load(tmp_path)
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model" / "codes").unlink()
    with pytest.raises(ValueError, match="codes does not exist: the bundle is incomplete"):
        FairseqBundle.load(tmp_path / "model")


def test_another_dictionary_is_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    for language in ("en", "de"):
        path = tmp_path / "model" / f"dict.{language}.txt"
        first, second, *rest = path.read_text().splitlines(keepends=True)
        path.write_text("".join([second, first, *rest]))
    with pytest.raises(ValueError, match="source dictionary .* is not the one"):
        FairseqBundle.load(tmp_path / "model").load_model()


def test_a_truncated_model_is_named(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    path = tmp_path / "model" / "model.pt"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match=re.escape(f"checkpoint {path} cannot be read")):
        FairseqBundle.load(tmp_path / "model").load_model()
