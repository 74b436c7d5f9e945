"""The rows of Table 3: the paper's figures, and the models that are trained here, at any scale.

A row's sizes are those of its architecture (`vaswani archs`), scaled down: d_model, d_ff, d_k and
d_v are divided by one number, N by another. The number of heads stays. So h x d_k = d_model holds
in (A), and d_k / d_model in (B) is that of the paper.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainings import finished

from vaswani_plugin.errors import UserError
from vaswani_plugin.model.architectures import row_of
from vaswani_plugin.model.configuration import Configuration, head_sizes

ROWS_OF_BIG = ("big",)


@dataclass(frozen=True)
class Row:
    """A line of the table: its name here, and the paper's figures on newstest2013.

    ppl is per word piece. label_smoothing is a flag of the training, not of the architecture.
    """

    name: str
    arch: str
    ppl: float
    bleu: float
    label_smoothing: float = 0.1

    @property
    def group(self) -> str:
        """The name that selects the row's group: a letter of the table, or the row's name."""
        return self.name.split("_")[0]


ROWS = (
    Row("base", "vaswani_base", 4.92, 25.8),
    Row("a_h1", "vaswani_a_h1", 5.29, 24.9),
    Row("a_h4", "vaswani_a_h4", 5.00, 25.5),
    Row("a_h16", "vaswani_a_h16", 4.91, 25.8),
    Row("a_h32", "vaswani_a_h32", 5.01, 25.4),
    Row("b_dk16", "vaswani_b_dk16", 5.16, 25.1),
    Row("b_dk32", "vaswani_b_dk32", 5.01, 25.4),
    Row("c_n2", "vaswani_c_n2", 6.11, 23.7),
    Row("c_n4", "vaswani_c_n4", 5.19, 25.3),
    Row("c_n8", "vaswani_c_n8", 4.88, 25.5),
    Row("c_d256", "vaswani_c_d256", 5.75, 24.5),
    Row("c_d1024", "vaswani_c_d1024", 4.66, 26.0),
    Row("c_ff1024", "vaswani_c_ff1024", 5.12, 25.4),
    Row("c_ff4096", "vaswani_c_ff4096", 4.75, 26.2),
    Row("d_drop00", "vaswani_d_drop00", 5.77, 24.6),
    Row("d_drop02", "vaswani_d_drop02", 4.95, 25.5),
    Row("d_eps00", "vaswani_base", 4.67, 25.3, label_smoothing=0.0),
    Row("d_eps02", "vaswani_base", 5.47, 25.7, label_smoothing=0.2),
    Row("e_learned", "vaswani_e_learned", 4.92, 25.7),
    Row("big", "vaswani_big", 4.33, 26.4),
)


def choose_rows(names: list[str]) -> list[Row]:
    """Returns the rows with these names or letters, in the table's order; without names, all.

    Raises:
        UserError: a name is unknown.
    """
    known = {row.name for row in ROWS} | {row.group for row in ROWS}
    wanted = [name.lower().removeprefix("vaswani_") for name in names]
    for name, given in zip(wanted, names, strict=True):
        if name not in known:
            raise UserError(
                f"{given}: no row of Table 3; the rows are {' '.join(row.name for row in ROWS)}, "
                "and a, b, c, d for all of a letter"
            )
    return [row for row in ROWS if not names or row.name in wanted or row.group in wanted]


def printed_parameters(row: Row) -> int | None:
    """Returns the paper's parameter count in millions; None if the table has none."""
    return row_of(row.arch).printed_parameters


@dataclass(frozen=True)
class Settings:
    """The settings that all rows share, so that they can be compared.

    All rows have max_update updates, except big, which has `max_update_big`. A batch has
    max_tokens x update_freq tokens on each device, of which a row has gpus_each GPUs, or none.
    """

    width_divisor: int
    depth_divisor: int
    max_tokens: int
    update_freq: int
    max_update: int
    max_update_big: int
    warmup_updates: int
    lr_factor: float
    gpus_each: int

    def updates(self, row: Row) -> int:
        """Returns the number of updates of a row."""
        return self.max_update_big if row.name in ROWS_OF_BIG else self.max_update


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `Settings`, and the flags for paths."""
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--data-key", required=True, help="a text that changes with the data")
    for name, field in Settings.__dataclass_fields__.items():
        kind = float if field.type is float else int
        parser.add_argument("--" + name.replace("_", "-"), type=kind, required=True)


def settings_of(args: argparse.Namespace) -> Settings:
    """Makes `Settings` from the flags of `add_settings`."""
    return Settings(**{name: getattr(args, name) for name in Settings.__dataclass_fields__})


def sizes(row: Row, settings: Settings) -> dict[str, Any]:
    """Returns the row's configuration after scaling, by the names of the model's flags.

    Raises:
        UserError: a size can't be divided.
    """
    cfg = Configuration(**row_of(row.arch).changes)
    d_k, d_v = head_sizes(cfg)
    widths = {"d_model": cfg.d_model, "d_ff": cfg.d_ff, "d_k": d_k, "d_v": d_v}
    depths = {"encoder_layers": cfg.encoder_layers, "decoder_layers": cfg.decoder_layers}
    scaled = {}
    for found, divisor, flag in (
        (widths, settings.width_divisor, "--width-divisor"),
        (depths, settings.depth_divisor, "--depth-divisor"),
    ):
        for name, size in found.items():
            if size % divisor:
                raise UserError(
                    f"{flag} {divisor} does not divide {name} of row {row.name}, {size}"
                )
            scaled[name] = size // divisor
    return scaled | {"heads": cfg.heads, "dropout": cfg.dropout, "positions": str(cfg.positions)}


def training_flags(row: Row, settings: Settings, seed: int) -> list[str]:
    """Returns the flags of `fairseq-train` for a row: its architecture, and the scaled sizes."""
    flags = ["--arch", row.arch]
    scaled = sizes(row, settings)
    plain = sizes(row, Settings(**vars(settings) | {"width_divisor": 1, "depth_divisor": 1}))
    for name, value in scaled.items():
        if value != plain[name]:
            flags += ["--" + name.replace("_", "-"), str(value)]
    if row.label_smoothing != 0.1:
        flags += ["--label-smoothing", str(row.label_smoothing)]
    for name in ("max_tokens", "update_freq", "warmup_updates", "lr_factor"):
        flags += ["--" + name.replace("_", "-"), str(getattr(settings, name))]
    return [*flags, "--seed", str(seed), "--max-update", str(settings.updates(row))]


@dataclass(frozen=True)
class Training:
    """One training: a row and a seed."""

    row: Row
    seed: int

    @property
    def name(self) -> str:
        """The name of the folder, such as c_n2-1."""
        return f"{self.row.name}-{self.seed}"

    def folder(self, work: Path) -> Path:
        """The folder in which it trains."""
        return work / "rows" / self.name

    def key(self, settings: Settings, data_key: str) -> str:
        """Everything on which the result depends, as a text."""
        flags = " ".join(training_flags(self.row, settings, self.seed))
        return f"data {data_key} gpus {settings.gpus_each} {flags}"

    def result(self, work: Path, settings: Settings, data_key: str) -> dict[str, Any] | None:
        """Reads the result; None if it is missing or belongs to other settings or data.

        Raises:
            UserError: the file is broken.
        """
        return finished(self.folder(work), self.key(settings, data_key))


def add_seeds(parser: argparse.ArgumentParser) -> None:
    """Adds --seeds and --base-seeds."""
    parser.add_argument("--seeds", required=True, help="of every row but base, such as 1,2")
    parser.add_argument("--base-seeds", required=True, help="of base")


def trainings_of(rows: list[Row], seeds: str, base_seeds: str) -> list[Training]:
    """Returns the trainings of rows, the first seed of all rows first.

    Raises:
        UserError: seeds are no different numbers, divided by commas.
    """
    numbers = {row: _numbers(base_seeds if row is ROWS[0] else seeds) for row in rows}
    most = max(map(len, numbers.values()))
    return [Training(row, n[i]) for i in range(most) for row, n in numbers.items() if i < len(n)]


def _numbers(text: str) -> list[int]:
    found = [int(part) for part in text.split(",") if part.isascii() and part.isdigit()]
    if len(set(found)) != text.count(",") + 1:
        raise UserError(f"seeds {text}: give different whole numbers divided by commas, as 1,2")
    return found
