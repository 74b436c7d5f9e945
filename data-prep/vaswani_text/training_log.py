"""What the log of fairseq-train tells of a run: its model, its size and its batches."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_JSON_LINE = re.compile(r"\| (train|train_inner) \| (\{.*\})\s*$")
_INNER_PAIR = re.compile(r"(\w+)=([^\s,|]+)")
_EPOCH_PAIR = re.compile(r"\| (\w+) (\S+)")
_MODEL = re.compile(r"'model': \{([^}]*)\}")
_ARCH = re.compile(r"'model': (?:\{'_name': |Namespace\(.*?\barch=)'(\w+)'")
_SETTING = re.compile(r"'(\w+)': '?([\w.-]+)")
_PARAMETERS = re.compile(r"num\. (?:shared )?model params: ([\d,]+)")
_DICTIONARY = re.compile(r"\[(\w+)\] dictionary: (\d+) types")
_DEVICES = re.compile(r"training on (\d+) devices")
_DEVICE_NAME = re.compile(r"rank +\d+: .*; name = (.+?)\s*$")
_LOADED = re.compile(r"Loaded checkpoint .* \(epoch \d+ @ (\d+) updates\)")


def statistics(line: str) -> tuple[str, dict[str, str]] | None:
    """The numbers of a line of training statistics, in fairseq's json or its simple format.

    Returns:
        "train_inner" (an interval within an epoch) or "train" (an epoch), and the fields by their
        names (wpb, bsz, wall, num_updates, ...); None for any other line.
    """
    if found := _JSON_LINE.search(line):
        fields = json.loads(found[2])
        return found[1], {key.removeprefix("train_"): str(value) for key, value in fields.items()}
    if "| train_inner |" in line:
        return "train_inner", dict(_INNER_PAIR.findall(line))
    if "| train | epoch" in line:
        return "train", dict(_EPOCH_PAIR.findall(line))
    return None


@dataclass
class _Sums:
    """Target tokens, sentences and seconds, added up over updates."""

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

    arch, model: its name and its settings as the log prints them (none where the model has no
    dataclass). dictionaries: types by language, source first. seconds: the time of all starts.
    tokens, sentences: of one update over all devices, on average; tokens are the target's, without
    padding. tokens_per_second: while it trained, validation left out. device_name: None on a CPU.
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
        """Such as "en-de"; None where there are no two languages."""
        return "-".join(self.dictionaries) if len(self.dictionaries) == 2 else None

    @property
    def target_vocabulary(self) -> int | None:
        """Types of the target's dictionary; None for a language model."""
        return self.dictionaries[self.pair.split("-")[1]] if self.pair else None


def read_training(lines: Iterable[str], name: str) -> TrainingRun:
    """Read a log.

    Args:
        lines: of the log, in order.
        name: what an error calls it.

    Raises:
        ValueError: no log of fairseq-train, or of one that logged no statistics.
    """
    run = TrainingRun()
    sums = {"train": _Sums(), "train_inner": _Sums()}
    last = {"train": 0, "train_inner": 0}
    seconds_before = 0.0
    for line in lines:
        if _PARAMETERS.search(line):  # a start: fairseq's clock begins anew
            seconds_before, run.seconds = seconds_before + run.seconds, 0.0
            last = dict.fromkeys(last, 0)
        if found := _LOADED.search(line):
            last = dict.fromkeys(last, int(found[1]))
        _read_setup(line, run)
        parsed = statistics(line)
        if parsed is None:
            continue
        kind, fields = parsed
        run.updates = int(fields.get("num_updates", run.updates))
        run.seconds = float(fields.get("wall", run.seconds))
        sums[kind].add(fields, run.updates - last[kind])
        last[kind] = run.updates
    # Intervals cover what epochs don't: the last, unfinished one. A short run logs epochs alone.
    total = sums["train_inner"] if sums["train_inner"].updates else sums["train"]
    if not run.parameters:
        raise ValueError(f"{name}: no model size in it: is this a log of fairseq-train?")
    if not total.updates:
        raise ValueError(f"{name}: no training statistics in it: did the training begin?")
    run.seconds += seconds_before
    run.tokens, run.sentences = total.tokens / total.updates, total.sentences / total.updates
    run.tokens_per_second = total.tokens / total.seconds
    return run


def _read_setup(line: str, run: TrainingRun) -> None:
    if found := _PARAMETERS.search(line):
        run.parameters = int(found[1].replace(",", ""))
    elif found := _DICTIONARY.search(line):
        run.dictionaries[found[1]] = int(found[2])
    elif found := _DEVICES.search(line):
        run.devices = int(found[1])
    elif found := _DEVICE_NAME.search(line):
        run.device_name = found[1]
    elif "{'_name': None, 'common'" in line:
        settings, arch = _MODEL.search(line), _ARCH.search(line)
        run.model = dict(_SETTING.findall(settings[1])) if settings else {}
        run.arch = arch and arch[1]
