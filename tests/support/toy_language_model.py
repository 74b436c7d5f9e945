"""A small text, binarized by fairseq itself, and checkpoints and bundles of models for it."""

import random
import shutil
from pathlib import Path

import torch
import torch.nn.functional as F
from fairseq import checkpoint_utils, options, tasks
from fairseq.data import Dictionary
from fairseq.models import FairseqLanguageModel
from fairseq_cli import preprocess
from fairseq_flags import checkpoint_of, training_config

from vaswani_plugin.text.settings import TextSettings

POSITIONS = 32
WORDS = [f"{a}{b}" for a in "bcdfgk" for b in "aeiou"]
OURS = ("--task", "vaswani_language_modeling", "--arch", "vaswani_lm_debug")
OURS += ("--initial-weights", "own")  # so that texts differ
ONE_LAYER = ("--task", "vaswani_language_modeling", "--arch", "vaswani_lm_one_layer")
ONE_LAYER += ("--d-model", "16", "--d-hidden", "16", "--d-ff", "32")
OUR_LSTM = ("--task", "vaswani_language_modeling", "--arch", "vaswani_lm_lstm_tiny")
OUR_LSTM += ("--d-model", "32", "--units", "48")
STOCK = ("--task", "language_modeling", "--arch", "transformer_lm", "--dropout", "0.1")
STOCK += ("--decoder-layers", "1", "--decoder-embed-dim", "16", "--decoder-ffn-embed-dim", "16")
STOCK += ("--decoder-attention-heads", "2", "--share-decoder-input-output-embed")
LSTM = ("--task", "language_modeling", "--arch", "lstm_lm", "--decoder-embed-dim", "16")
LSTM += ("--decoder-hidden-size", "24", "--decoder-out-embed-dim", "16", "--decoder-layers", "2")


def make_lines(count: int, seed: int, step: int = 7) -> list[str]:
    """Lines in which a word says much about the next one; `step` decides what."""
    rng = random.Random(seed)
    lines = []
    for _ in range(count):
        number, line = rng.randrange(len(WORDS)), []
        for _ in range(rng.randint(1, 12)):
            line.append(WORDS[number])
            number = (number * step + rng.choice([1, 2, 3])) % len(WORDS)
        lines.append(" ".join(line))
    return lines


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_data(folder: Path) -> Path:
    """`folder`/{train,valid,test} and what fairseq-preprocess makes of them; returns that."""
    flags = ["--only-source", "--destdir", str(folder / "bin"), "--workers", "1"]
    for seed, (split, count) in enumerate({"train": 300, "valid": 20, "test": 30}.items()):
        write_lines(folder / split, make_lines(count, seed))
        flags += [f"--{split}pref", str(folder / split)]
    preprocess.main(options.get_preprocessing_parser().parse_args(flags))
    return folder / "bin"


def stream_of(dictionary: Dictionary, lines: list[str]) -> list[int]:
    """Token numbers, each line ended."""
    numbers = [[dictionary.index(word) for word in [*line.split(), "</s>"]] for line in lines]
    return [number for line in numbers for number in line]


def build(folder: Path, *flags: str, seed: int = 1) -> tuple[dict, FairseqLanguageModel]:
    """A checkpoint of random weights, and the model."""
    cfg = training_config(*flags, "--tokens-per-sample", str(POSITIONS)).copy()
    cfg.task.data = str(folder)
    task = tasks.setup_task(cfg.task)
    torch.manual_seed(seed)
    model = task.build_model(cfg.model)
    return checkpoint_of(cfg, task, model), model


def train(model: FairseqLanguageModel, stream: list[int], end: int, updates: int) -> None:
    """Plain Adam on windows drawn from the stream."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    text = torch.tensor([end, *stream])
    for _ in range(updates):
        starts = torch.randint(0, len(stream) - POSITIONS, (16, 1))
        rows = text[starts + torch.arange(POSITIONS + 1)]
        logits = model(rows[:, :-1])[0]
        optimizer.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).backward()
        optimizer.step()


def write_checkpoint(data: Path, path: Path, *flags: str, updates: int = 60) -> Path:
    """A checkpoint as fairseq-train writes it, trained a little on `data`/../train."""
    state, model = build(data, *flags)
    dictionary = Dictionary.load(str(data / "dict.txt"))
    lines = (data.parent / "train").read_text(encoding="utf-8").splitlines()
    train(model, stream_of(dictionary, lines), dictionary.eos(), updates)
    torch.save({**state, "model": model.state_dict()}, path)
    return path


def load_by_fairseq(checkpoint: Path, data: Path) -> tuple[FairseqLanguageModel, Dictionary]:
    """The model of a checkpoint as fairseq itself loads it, and its dictionary."""
    state = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))
    state["cfg"].task.data = str(data)
    task = tasks.setup_task(state["cfg"].task)
    model = task.build_model(state["cfg"].model)
    model.load_state_dict(state["model"])
    return model.eval(), task.source_dictionary


def bundle_of(checkpoint: Path, data: Path) -> Path:
    """A bundle of words: a checkpoint with the dictionary of its data."""
    folder = checkpoint.with_suffix("")
    folder.mkdir()
    shutil.copy(checkpoint, folder / "model.pt")
    shutil.copy(data / "dict.txt", folder)
    (folder / "preprocessing.json").write_text(TextSettings("words").to_json(), encoding="utf-8")
    return folder


def write_bundle(
    folder: Path, settings: TextSettings, units: list[str], *flags: str, seed: int = 1
) -> Path:
    """A bundle of `vaswani_lm_debug` with random weights and peaked logits; `units` in rows."""
    folder.mkdir()
    write_lines(folder / "dict.txt", [f"{unit} 1" for unit in units])
    (folder / "preprocessing.json").write_text(settings.to_json(), encoding="utf-8")
    state, model = build(folder, *OURS, *flags, seed=seed)
    with torch.no_grad():
        model.projection_weight.mul_(2.0)
    torch.save({**state, "model": model.state_dict()}, folder / "model.pt")
    return folder
