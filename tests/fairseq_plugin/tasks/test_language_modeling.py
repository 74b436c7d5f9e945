"""The language modeling task: which loss, over which targets, and every token scored once."""

import logging
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from fairseq import checkpoint_utils, options, tasks
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import eval_lm, preprocess, train
from fairseq_flags import PLUGIN, training_config
from toy_language_model import OURS, build, stream_of, write_data, write_lines

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.criterion import VaswaniLabelSmoothing
from vaswani_plugin.fairseq_plugin.tasks.language_modeling import VaswaniLanguageModelingTask

IN_WORKERS = ("--num-workers", "2", "--batch-size", "2")
SUMMARIES = ["alpha beta gamma <sep> beta", "beta <sep> gamma gamma alpha", "<sep>"]
SUMMARIES += ["gamma alpha alpha beta gamma alpha <sep> beta <sep> alpha"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines, binarized by fairseq."""
    return write_data(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def checkpoint(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model of 32 positions, peaked so that contexts matter."""
    state, model = build(data, *OURS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    path = tmp_path_factory.mktemp("model") / "checkpoint.pt"
    torch.save({**state, "model": model.state_dict()}, path)
    return path


@pytest.fixture(scope="module")
def summaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines of the form `article <sep> summary`, binarized."""
    folder = tmp_path_factory.mktemp("summaries")
    path = write_lines(folder / "text", SUMMARIES)
    flags = ["--only-source", "--destdir", str(folder / "bin"), "--workers", "1"]
    for split in ("train", "valid", "test"):
        flags += [f"--{split}pref", str(path)]
    preprocess.main(options.get_preprocessing_parser().parse_args(flags))
    return folder / "bin"


def evaluate(data: Path, checkpoint: Path, *flags: str) -> float:
    """Bits a token, as fairseq-eval-lm finds them, without --task."""
    arguments = [str(data), "--user-dir", str(PLUGIN), "--path", str(checkpoint), "--cpu"]
    parser = options.get_eval_lm_parser()
    args = options.parse_args_and_arch(parser, [*arguments, "--num-workers", "0", *flags])
    return float(eval_lm.main(convert_namespace_to_omegaconf(args))["loss"])


@torch.no_grad()
def bits_by_hand(model, stream: list[int], end: int, block: int, context: int) -> float:
    """Blocks of the stream, one after the other, each behind the inputs just before it."""
    inputs, total = [end, *stream], 0.0
    for start in range(0, len(stream), block):
        stop = min(start + block, len(stream))
        begin = max(0, start - context)
        logits = model(torch.tensor([inputs[begin:stop]]))[0][0, start - begin :]
        targets = torch.tensor(stream[start:stop])
        total += float(F.cross_entropy(logits.double(), targets, reduction="sum"))
    return total / len(stream) / math.log(2)


@pytest.mark.parametrize(
    ("flags", "block", "context"),
    [
        (("--tokens-per-sample", "7", "--batch-size", "3"), 7, 0),
        (("--tokens-per-sample", "32", "--context-window", "31", "--batch-size", "5"), 1, 31),
        (("--tokens-per-sample", "32", "--context-window", "4", *IN_WORKERS), 28, 4),
    ],
    ids=str,
)
def test_each_token_is_scored_once_with_its_context(data, checkpoint, flags, block, context):
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(checkpoint)], arg_overrides={"data": str(data)}
    )
    model.eval()
    lines = (data.parent / "test").read_text(encoding="utf-8").splitlines()
    stream = stream_of(task.dictionary, lines)
    expected = bits_by_hand(model, stream, task.dictionary.eos(), block, context)
    assert evaluate(data, checkpoint, *flags) == pytest.approx(expected, abs=2e-5)
    others = (block - 1 or 2, max(0, context - 1))
    elsewhere = bits_by_hand(model, stream, task.dictionary.eos(), *others)
    assert abs(elsewhere - expected) > 1e-4  # the windows matter here


UNSCORED = ["", "33 --context-window 5", "9 --context-window 9"]


@pytest.mark.parametrize("flags", [*UNSCORED, "9 --context-window 3 --num-shards 2"])
def test_what_would_not_be_scored_is_an_error(data, checkpoint, flags):
    """fairseq says "Perplexity: 1.00" where no sample fits, and IndexError for the third."""
    message = "positions, would not be scored: --tokens-per-samp|must be below --tokens-per-samp"
    with pytest.raises(UserError, match=f"{message}|reads the whole text: drop --num-shards"):
        evaluate(data, checkpoint, *(f"--tokens-per-sample {flags}".split() if flags else []))


def make_summary_task(summaries: Path, *flags: str) -> VaswaniLanguageModelingTask:
    cfg = training_config(*OURS, "--tokens-per-sample", "32", *flags).copy()
    cfg.task.data = str(summaries)
    return tasks.setup_task(cfg.task)


AFTER_SEP = ("--loss-after", "<sep>", "--sample-break-mode", "eos")


@torch.no_grad()
def summary_nats(model, dictionary: Dictionary) -> tuple[float, int]:
    """Of what follows the first <sep> of each line, its end included; and how many tokens."""
    total, count = 0.0, 0
    for line in SUMMARIES:
        words = [dictionary.index(word) for word in line.split()]
        logits = model(torch.tensor([[dictionary.eos(), *words]]))[0][0].double()
        first = line.split().index("<sep>") + 1
        targets = torch.tensor([*words, dictionary.eos()])[first:]
        total += float(F.cross_entropy(logits[first:], targets, reduction="sum"))
        count += len(targets)
    return total, count


def test_loss_and_evaluation_are_over_the_summaries_alone(summaries, tmp_path):
    state, model = build(summaries, *OURS, *AFTER_SEP)
    torch.save({**state, "model": model.state_dict()}, tmp_path / "model.pt")
    model.eval()
    task = make_summary_task(summaries, *AFTER_SEP)
    task.load_dataset("train")
    dataset = task.dataset("train")
    batch = dataset.collater([dataset[number] for number in range(len(SUMMARIES))])
    nats, count = summary_nats(model, task.dictionary)
    for unfused in (False, True):
        criterion = VaswaniLabelSmoothing(task, False, 0.0, False, unfused)
        loss, sample_size, logged = criterion(model, batch)
        assert loss.item() == pytest.approx(nats, rel=1e-5)
        assert sample_size == logged["ntokens"] == count
    path, flags = tmp_path / "model.pt", (*AFTER_SEP, "--tokens-per-sample", "32")
    assert evaluate(summaries, path, *flags) == pytest.approx(nats / count / math.log(2), rel=1e-5)
    with pytest.raises(UserError, match="--context-window and --loss-after exclude each other"):
        evaluate(summaries, path, *flags, "--context-window", "4")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--loss-after", "<sep>"), "--loss-after .* give --sample-break-mode eos"),
        (("--sample-break-mode", "eos", "--loss-after", "qwertz"), "qwertz: the dictionary has no"),
        (("--loss-after", "alpha", "--sample-break-mode", "eos"), "sentence 3 holds no alpha"),
    ],
)
def test_a_loss_that_begins_nowhere_is_refused(summaries, flags, message):
    with pytest.raises(UserError, match=message):
        make_summary_task(summaries, *flags).load_dataset("train")


def test_training_writes_what_evaluation_reads(data, tmp_path, caplog):
    """A few updates by fairseq-train's own code, in this process."""
    flags = ("--max-tokens", "256", "--warmup-updates", "10", "--max-update", "12", "--cpu")
    quiet = ("--no-progress-bar", "--no-epoch-checkpoints", "--num-workers", "0")
    cfg = training_config(*OURS, "--tokens-per-sample", "32", *flags, *quiet).copy()
    cfg.task.data, cfg.checkpoint.save_dir = str(data), str(tmp_path / "save")
    with caplog.at_level(logging.INFO):
        train.main(cfg)
    assert "paper defaults in force: " in caplog.text
    checkpoint = tmp_path / "save/checkpoint_last.pt"
    uniform = math.log2(34)  # 30 words and fairseq's four symbols
    assert 1 < evaluate(data, checkpoint, "--tokens-per-sample", "32") < uniform
