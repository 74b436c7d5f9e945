"""Reads the model, its size, the batches and the curves of a run from the log of fairseq-train.

The statistics are read from `--log-format json` or `simple`, which fairseq takes where its output
is no terminal. The progress bar of a terminal (`tqdm`) is no log.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

LOG_OF_RECIPE = "logs/train.log"
"""The log of a training, in a recipe's work folder."""
MOST_UPDATES = 1 << 53
"""Largest number of updates that is plausible; a float still represents it exactly."""
TEXT = "text"
"""Name used as the only "language" of a language model."""

Curve = list[dict[str, float]]

_JSON_LINE = re.compile(r"\| (\w+) \| (\{.*\})\s*$")
_VALID_LINE = re.compile(r"\| epoch \d+ \| valid on '(\w+)' subset \|")
_INNER_PAIR = re.compile(r"(\w+)=([^\s,]+)")
_EPOCH_PAIR = re.compile(r"\| (\w+) (\S+)")
# The number of updates of the loaded checkpoint; without a checkpoint there is none.
_START = re.compile(r"Loaded checkpoint .* \(epoch \d+ @ (\d+) updates\)|No existing checkpoint")


def statistics(line: str) -> tuple[str, dict[str, str]] | None:
    """Reads the statistics of a log line.

    Returns:
        The kind of statistics, and the fields by name (wpb, bsz, wall, num_updates, ...). The kind
        is "train_inner" (an interval within an epoch), "train" (an epoch) or the name of a
        validation set. None for any other line.
    """
    if found := _JSON_LINE.search(line):
        try:
            fields = json.loads(found[2])
        except ValueError:
            return None  # truncated, or a line of another program
        fields = {key.removeprefix(f"{found[1]}_"): str(value) for key, value in fields.items()}
        return (found[1], fields) if "num_updates" in fields else None
    if "| train_inner |" in line:
        return "train_inner", dict(_INNER_PAIR.findall(line))
    if "| train | epoch" in line:
        return "train", dict(_EPOCH_PAIR.findall(line))
    if found := _VALID_LINE.search(line):
        return found[1], dict(_EPOCH_PAIR.findall(line))
    return None


def _points(lines: Iterable[str], name: str) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Yields the kind, the number of updates and the numbers of each record; a start has no kind.

    `seconds` is the time of all starts so far, `interval` the number of updates that a record is
    about.
    """
    before = wall = 0.0  # seconds: of earlier starts, of this one
    begun = 0  # updates at this start
    last: dict[str, int] = {}  # updates at the last record of each kind
    for line in lines:
        start = _START.search(line)
        kind, texts = (
            ("", {"num_updates": start[1] or "0"}) if start else statistics(line) or ("", {})
        )
        fields = _numbers(texts)
        if "num_updates" not in fields:
            continue
        if not 0 <= fields["num_updates"] <= MOST_UPDATES:
            raise ValueError(f"{name}: {texts['num_updates']:.20} updates: is the log damaged?")
        update = int(fields["num_updates"])
        if start or fields.get("wall", wall) < wall:  # fairseq's clock restarts
            before, wall = before + wall, 0.0
        if start:
            begun, last = update, {}
        if "wall" in fields:
            wall = fields["wall"]
            fields["seconds"] = before + wall
        fields["interval"] = max(0, update - last.get(kind, begun))
        last[kind] = update
        yield kind, update, fields


def read_curves(lines: Iterable[str], name: str) -> dict[str, Curve]:
    """Joins the starts of a run; if updates were repeated, the later records replace the earlier.

    Args:
        lines: of the log, in order.
        name: the log's name in error messages.

    Returns:
        By kind ("train_inner", "train", the names of validation sets), the points in the order of
        their `num_updates`. `seconds` is the total time of all starts, if the log has it.

    Raises:
        ValueError: there are no statistics, or a number of updates that can't be.
    """
    curves: dict[str, dict[int, dict[str, float]]] = {}
    for kind, update, fields in _points(lines, name):
        points = curves.setdefault(kind, {}) if kind else {}
        if not kind or points and update < next(reversed(points)):
            for curve in curves.values():
                for late in [other for other in curve if other > update]:
                    del curve[late]
        if kind:
            points.pop(update, None)
            points[update] = fields
    found = {kind: list(curve.values()) for kind, curve in curves.items() if curve}
    if not found:
        raise ValueError(
            f"{name}: no training statistics in it: is this a log of fairseq-train, "
            "in --log-format json or simple?"
        )
    return found


def _numbers(texts: dict[str, str]) -> dict[str, float]:
    """Returns the fields that are numbers; nan and inf count as numbers."""
    numbers = {}
    for key, text in texts.items():
        try:
            numbers[key] = float(text)
        except ValueError:
            continue  # a word in a validation line, or None
    return numbers


@dataclass
class TrainingRun:
    """A run of fairseq-train, resumed or not.

    arch, model: the architecture's name, and its settings as the log prints them (empty if the
    model has no dataclass). dictionaries: number of types by language, source first. seconds: total
    time of all starts. tokens, sentences: averages of one update over all devices; tokens are
    target tokens without padding. tokens_per_second: speed of the training without validation.
    device_name: None on a CPU.
    """

    arch: str | None = None
    model: dict[str, str] = field(default_factory=dict)
    dictionaries: dict[str, int] = field(default_factory=dict)
    parameters: int = 0
    devices: int = 1
    device_name: str | None = None
    updates: int = 0
    seconds: float = 0.0
    tokens: float = 0.0
    sentences: float = 0.0
    tokens_per_second: float = 0.0

    @property
    def pair(self) -> str | None:
        """The language pair, such as "en-de"; None unless there are two languages."""
        return "-".join(self.dictionaries) if len(self.dictionaries) == 2 else None

    @property
    def target_vocabulary(self) -> int | None:
        """Number of types of the target dictionary; None if the log names none."""
        return next(reversed(self.dictionaries.values()), None)


def read_training(lines: Iterable[str], name: str) -> TrainingRun:
    """Reads a log.

    Args:
        lines: of the log, in order.
        name: the log's name in error messages.

    Raises:
        ValueError: it is no log of fairseq-train, or holds no statistics, or numbers that can't be.
    """
    run = TrainingRun()
    # Intervals also cover an unfinished last epoch. A short run logs epochs only.
    sums = {"train_inner": [0.0] * 4, "train": [0.0] * 4}  # updates, tokens, sentences, seconds
    for kind, update, fields in _points(_with_setup(lines, run), name):
        if kind not in sums:
            continue
        run.updates = update
        run.seconds = fields.get("seconds", run.seconds)
        if {"wpb", "bsz", "wps"} <= fields.keys() and fields["interval"] and fields["wps"] > 0:
            tokens = fields["interval"] * fields["wpb"]
            sentences = fields["interval"] * fields["bsz"]
            added = fields["interval"], tokens, sentences, tokens / fields["wps"]
            sums[kind] = [a + b for a, b in zip(sums[kind], added, strict=True)]
    if not run.parameters:
        raise ValueError(f"{name}: no model size in it: is this a log of fairseq-train?")
    updates, tokens, sentences, seconds = sums["train_inner" if sums["train_inner"][0] else "train"]
    if not updates:
        raise ValueError(f"{name}: no training statistics in it: did the training begin?")
    if not all(0 < number < math.inf for number in (tokens, sentences, seconds, 1 + run.seconds)):
        raise ValueError(
            f"{name}: its tokens, sentences, speed or time are no numbers above 0: is the log "
            "damaged?"
        )
    run.tokens, run.sentences = tokens / updates, sentences / updates
    run.tokens_per_second = tokens / seconds
    return run


_MODEL = re.compile(r"'model': \{([^}]*)\}")
_ARCH = re.compile(r"'model': (?:\{'_name': |Namespace\(.*?\barch=)'(\w+)'")
_SETTING = re.compile(r"'(\w+)': '?([\w.-]+)")
_PARAMETERS = re.compile(r"num\. (?:shared )?model params: ([\d,]+)")
_DICTIONARY = re.compile(r"(?:\[(\w+)\]|\|) dictionary: (\d+) types")
_DEVICES = re.compile(r"training on (\d+) devices")
_DEVICE_NAME = re.compile(r"rank +\d+: .*; name = (.+?)\s*$")


def _with_setup(lines: Iterable[str], run: TrainingRun) -> Iterator[str]:
    """Yields the lines and notes in `run` what they say of the model and the machine."""
    for line in lines:
        if found := _PARAMETERS.search(line):
            run.parameters = int(found[1].replace(",", ""))
        elif found := _DICTIONARY.search(line):
            run.dictionaries[found[1] or TEXT] = int(found[2])
        elif found := _DEVICES.search(line):
            run.devices = int(found[1])
        elif found := _DEVICE_NAME.search(line):
            run.device_name = found[1]
        elif "{'_name': None, 'common'" in line:
            settings, arch = _MODEL.search(line), _ARCH.search(line)
            run.model = dict(_SETTING.findall(settings[1])) if settings else {}
            run.arch = arch and arch[1]
        yield line
