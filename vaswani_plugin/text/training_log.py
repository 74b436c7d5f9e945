"""Reads the model, its size, the batches and the curves of a run from the log of fairseq-train."""

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

LOG_OF_RECIPE = "logs/train.log"
"""The log of a training, in a recipe's work folder."""
_JSON_LINE = re.compile(r"\| (\w+) \| (\{.*\})\s*$")
_VALID_LINE = re.compile(r"\| epoch \d+ \| valid on '(\w+)' subset \|")
_BAR = re.compile(r"^epoch \d+:.*\[.*\bnum_updates=\d+")
_INNER_PAIR = re.compile(r"(\w+)=([^\s,|\]]+)")
_EPOCH_PAIR = re.compile(r"\| (\w+) (\S+)")
_MODEL = re.compile(r"'model': \{([^}]*)\}")
_ARCH = re.compile(r"'model': (?:\{'_name': |Namespace\(.*?\barch=)'(\w+)'")
_SETTING = re.compile(r"'(\w+)': '?([\w.-]+)")
_PARAMETERS = re.compile(r"num\. (?:shared )?model params: ([\d,]+)")
_DICTIONARY = re.compile(r"(?:\[(\w+)\]|\|) dictionary: (\d+) types")
_DEVICES = re.compile(r"training on (\d+) devices")
_DEVICE_NAME = re.compile(r"rank +\d+: .*; name = (.+?)\s*$")
_LOADED = re.compile(r"Loaded checkpoint .* \(epoch \d+ @ (\d+) updates\)")
_FRESH = "No existing checkpoint found"
MOST_UPDATES = 1 << 53
"""Largest number of updates that is plausible; a float still represents it exactly."""
START = "start"
TEXT = "text"
"""Name used as the only "language" of a language model."""


def statistics(line: str) -> tuple[str, dict[str, str]] | None:
    """Reads the statistics of a log line in fairseq's json, simple or tqdm format.

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
    if "| train_inner |" in line or _BAR.search(line):
        return "train_inner", dict(_INNER_PAIR.findall(line))
    if "| train | epoch" in line:
        return "train", dict(_EPOCH_PAIR.findall(line))
    if found := _VALID_LINE.search(line):
        return found[1], dict(_EPOCH_PAIR.findall(line))
    return None


def _parts(lines: Iterable[str]) -> Iterator[str]:
    """Yields the lines, and each state of a progress bar as a line."""
    for line in lines:
        yield from line.split("\r") if "\r" in line else (line,)


@dataclass
class _Sums:
    """Target tokens, sentences and seconds, summed over updates."""

    tokens: float = 0.0
    sentences: float = 0.0
    seconds: float = 0.0
    updates: int = 0

    def add(self, fields: dict[str, str], updates: int) -> None:
        if updates > 0 and {"wpb", "bsz", "wps"} <= fields.keys() and float(fields["wps"]) > 0:
            tokens = updates * float(fields["wpb"])
            self.tokens += tokens
            self.sentences += updates * float(fields["bsz"])
            self.seconds += tokens / float(fields["wps"])
            self.updates += updates


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
    """Read a log.

    Args:
        lines: of the log, in order.
        name: the log's name in error messages.

    Raises:
        ValueError: it is no log of fairseq-train, or holds no statistics, or numbers that can't be.
    """
    run = TrainingRun()
    sums = {"train": _Sums(), "train_inner": _Sums()}
    last = {"train": 0, "train_inner": 0}
    seconds_before = 0.0
    for line in _parts(lines):
        if _PARAMETERS.search(line):  # a start: fairseq's clock restarts at 0
            seconds_before, run.seconds = seconds_before + run.seconds, 0.0
            last = dict.fromkeys(last, 0)
        if found := _LOADED.search(line):
            last = dict.fromkeys(last, int(found[1]))
        _read_setup(line, run)
        parsed = statistics(line)
        if parsed is None:
            continue
        kind, fields = parsed
        if kind not in sums:
            continue  # a validation
        try:
            run.updates = int(fields.get("num_updates", run.updates))
            if run.updates > MOST_UPDATES:
                raise ValueError(f"{fields['num_updates']:.20}... updates in it")
            run.seconds = float(fields.get("wall", run.seconds))
            sums[kind].add(fields, run.updates - last[kind])
        except ValueError as error:
            raise ValueError(f"{name}: {error}: is the log damaged?") from error
        last[kind] = run.updates
    run.seconds += seconds_before
    _take_averages(run, sums, name)
    return run


def _take_averages(run: TrainingRun, sums: dict[str, _Sums], name: str) -> None:
    """Computes the average tokens and sentences of an update, and the speed.

    Raises:
        ValueError: for the reasons in `read_training`.
    """
    # Intervals also cover an unfinished last epoch. A short run logs epochs only.
    total = sums["train_inner"] if sums["train_inner"].updates else sums["train"]
    if not run.parameters:
        raise ValueError(f"{name}: no model size in it: is this a log of fairseq-train?")
    if not total.updates:
        raise ValueError(f"{name}: no training statistics in it: did the training begin?")
    sizes = total.tokens, total.sentences, total.seconds
    if not (all(0 < size < math.inf for size in sizes) and math.isfinite(run.seconds)):
        raise ValueError(
            f"{name}: its tokens, sentences, speed or time are no numbers above 0: is the log "
            "damaged?"
        )
    run.tokens, run.sentences = total.tokens / total.updates, total.sentences / total.updates
    run.tokens_per_second = total.tokens / total.seconds


def _read_setup(line: str, run: TrainingRun) -> None:
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


Record = tuple[str, dict[str, str]]
Curve = list[dict[str, float]]


def read_records(lines: Iterable[str]) -> Iterator[Record]:
    """Yields a log's statistics in order, and ("start", {"num_updates": n}) at each start.

    n is the number of updates of the loaded checkpoint; 0 without a checkpoint.
    """
    for line in _parts(lines):
        if found := _LOADED.search(line):
            yield START, {"num_updates": found[1]}
        elif _FRESH in line:
            yield START, {"num_updates": "0"}
        elif parsed := statistics(line):
            yield parsed


def read_curves(records: Iterable[Record], name: str) -> dict[str, Curve]:
    """Join the starts of a run; if updates were repeated, the later records replace the earlier.

    Args:
        records: as returned by `read_records`.
        name: the log's name in error messages.

    Returns:
        By kind ("train_inner", "train", the names of validation sets), the points in the order of
        their `num_updates`. `seconds` is the total time of all starts, if the log has it.

    Raises:
        ValueError: there are no statistics, or a number of updates that can't be.
    """
    curves: dict[str, dict[int, dict[str, float]]] = {}
    before = wall = 0.0  # seconds: of earlier starts, of this one
    for kind, texts in records:
        fields = _numbers(texts)
        if "num_updates" not in fields:
            continue  # a truncated line
        if not 0 <= fields["num_updates"] <= MOST_UPDATES:
            raise ValueError(f"{name}: {texts['num_updates']:.20} updates: is the log damaged?")
        update = int(fields["num_updates"])
        points = curves.setdefault(kind, {})
        if kind == START or points and update < next(reversed(points)):
            for curve in curves.values():
                for late in [other for other in curve if other > update]:
                    del curve[late]
        if kind == START or fields.get("wall", wall) < wall:  # fairseq's clock restarts
            before, wall = before + wall, 0.0
        if kind != START:
            if "wall" in fields:
                wall = fields["wall"]
                fields["seconds"] = before + wall
            points.pop(update, None)
            points[update] = fields
    found = {kind: list(curve.values()) for kind, curve in curves.items() if curve}
    if not found:
        raise ValueError(f"{name}: no training statistics in it: is this a log of fairseq-train?")
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
