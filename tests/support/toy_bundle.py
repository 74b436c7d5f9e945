"""A whole bundle in a second: codes of a few sentences, peaked random weights, 24 positions."""

from pathlib import Path

import torch
from bundle import make_bundle, make_settings
from fairseq import checkpoint_utils, tasks
from fairseq_flags import checkpoint_of, training_config
from omegaconf import open_dict

from vaswani_plugin.text import bpe, bpe_learning
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import settings_from

POSITIONS = 24
SENTENCES = [
    "The old doctor's friends didn't see a well-known bird in the garden.",
    'He said: "We bought seven apples & a pear, for 5 dollars!"',
    "Why are the children singing (again) near the quiet river?",
    "It rained; the tired farmer was happy, and the cat slept.",
    "Over the green hills, small clouds moved towards the sea.",
]
SETTINGS = ["lowercase=true", "normalize_punctuation=true", "tokenizer=moses"]


def write_data(folder: Path) -> Path:
    """Codes and two equal dictionaries, dict.en.txt and dict.de.txt; returns the codes."""
    settings = {"source_language": "en", "target_language": "de", "lowercase": True}
    settings |= {"normalize_punctuation": True, "tokenizer": "moses", "subwords": "none"}
    words = [Pipeline(settings_from(settings), folder).encode(line) for line in SENTENCES]
    (folder / "words").write_text("".join(f"{line}\n" for line in words), encoding="utf-8")
    bpe_learning.learn([str(folder / "words")], 60, 2, str(folder / "codes"))
    encode = bpe.make_encoder(str(folder / "codes"))
    symbols = dict.fromkeys(symbol for line in words for symbol in encode(line).split())
    for language in ("en", "de"):
        rows = "".join(f"{symbol} 1\n" for symbol in symbols)
        (folder / f"dict.{language}.txt").write_text(rows, encoding="utf-8")
        (folder / f"test.en-de.{language}.idx").touch()  # its name tells the languages
    return folder / "codes"


def write_checkpoint(
    data: Path,
    path: Path,
    seed: int = 1,
    model: tuple[str, ...] = ("--arch", "vaswani_debug"),
    share: str = "none",
    positions: int = POSITIONS,
) -> None:
    """A checkpoint as fairseq-train writes it, untrained; `share`: which embeddings are one."""
    limits = ("--max-source-positions", str(positions), "--max-target-positions", str(positions))
    spread = () if "lstm" in str(model) else ("--initial-weights", "own")  # lines differ by it
    flags = ("--task", "vaswani_translation", *spread, *model, *limits)
    flags += ("--share-embeddings", share, "--source-lang", "en", "--target-lang", "de")
    cfg = training_config(*flags).copy()
    cfg.task.data = str(data)
    task = tasks.setup_task(cfg.task)
    torch.manual_seed(seed)
    built = task.build_model(cfg.model)
    with torch.no_grad():
        built.projection_weight.mul_(2.5)
    torch.save(checkpoint_of(cfg, task, built), path)


def write_toy_bundle(folder: Path, **checkpoint) -> Path:
    """Makes the bundle in `folder`/model and returns that."""
    codes = write_data(folder)
    write_checkpoint(folder, folder / "averaged.pt", **checkpoint)
    pairs = [*SETTINGS, "subwords=subword-nmt", f"codes={codes}", "beam=2"]
    settings = make_settings("en-de", pairs, folder)
    make_bundle(folder / "averaged.pt", folder, settings, folder / "model")
    return folder / "model"


def load_by_fairseq(folder: Path) -> tuple:
    """The model of a bundle as fairseq builds it, and the task that decodes as the paper does."""
    path = folder / "model.pt"
    state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
    cfg = state["cfg"].task
    with open_dict(cfg):
        cfg._name, cfg.data, cfg.length_penalty = "vaswani_translation", str(folder), "paper"
    task = tasks.setup_task(cfg, from_checkpoint=True)
    load = checkpoint_utils.load_model_ensemble_and_task
    (model,), *_ = load([str(path)], task=task, state=state)
    return model.eval(), task
