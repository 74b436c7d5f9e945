"""The families of models, a record each: all that tells one family from another.

From the records come `--arch` and its task, the flags, defaults of a training, loading, search,
FLOPs and `vaswani archs`. What needs PyTorch is a dotted name, "module:attribute", so that a record
costs nothing to read. The records of other rooms stand there; here is where they are found.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from vaswani_plugin.model.configuration import Checkpointed, Configuration

if TYPE_CHECKING:
    from vaswani_plugin.model.architectures import Architecture

TRANSFORMER = "vaswani_transformer"
TRANSLATION, PARSING = "vaswani_translation", "vaswani_parsing"
LANGUAGE_MODELING = "vaswani_language_modeling"
SMOOTHING, CLIPPING = "criterion.label_smoothing", "optimization.clip_norm"
"""Keys of fairseq's configuration."""


@dataclass(frozen=True)
class Family:
    """The architectures of one model, for one task."""

    title: str  # heading of the family's table
    model: str  # registered name; rows change the model's configuration
    task: str  # registered name
    configuration: type[Checkpointed]
    table: str  # dotted name of the rows
    builder: str  # of the function that builds it: configuration and dictionaries in, model out
    adapter: str  # of the class that takes a built model for searches, scores and figures
    registration: str  # of the module that registers it with fairseq
    without: tuple[str, ...] = ()  # fields of the configuration that this model hasn't
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of a training, by fairseq's keys
    target_rows: int | None = None  # size of the target vocabulary where the task fixes it
    remark: str = ""  # below the table

    @property
    def rows(self) -> "tuple[Architecture, ...]":
        """The named architectures."""
        return resolve_name(self.table)

    @property
    def base(self) -> dict[str, Any]:
        """The values of a row that doesn't change them, by configuration key."""
        known = (f for f in fields(self.configuration) if f.name not in self.without)
        return {f.name: f.default for f in known if "help" in f.metadata}

    @property
    def writes_texts(self) -> bool:
        """Whether it is a language model: it has the target's dictionary alone."""
        return self.task == LANGUAGE_MODELING

    def build(self, cfg: Any, source: Any, target: Any, **options: Any) -> Any:
        """Build a model of `modules` for two dictionaries; the options are the builder's."""
        dictionaries = (target,) if self.writes_texts else (source, target)
        return resolve_name(self.builder)(cfg, *dictionaries, **options)

    def searched(self, model: Any) -> Any:
        """Take a built model for searches: see `search.models.Model`."""
        return resolve_name(self.adapter)(model)


_BUILD, _ROWS = "vaswani_plugin.model.build:", "vaswani_plugin.model.architectures:"
_FAIRSEQ = "vaswani_plugin.fairseq_plugin.models."
TRANSLATOR = Family(
    "Translation (section 3, Table 3)",
    TRANSFORMER,
    TRANSLATION,
    Configuration,
    table=_ROWS + "ARCHITECTURES",
    builder=_BUILD + "build",
    adapter="vaswani_plugin.search.models:TransformerModel",
    registration=_FAIRSEQ + "transformer",
    remark="Table 3 (D), label smoothing 0.0 and 0.2: vaswani_base with --label-smoothing.",
)
PARSER = replace(
    TRANSLATOR,
    title="Constituency parsing (section 6.3)",
    task=PARSING,
    table=_ROWS + "PARSERS",
    target_rows=128,
    remark="",
)
LANGUAGE_MODEL = Family(
    "Language models, decoder only",
    "vaswani_lm",
    LANGUAGE_MODELING,
    Configuration,
    table=_ROWS + "LANGUAGE_MODELS",
    builder=_BUILD + "build_language_model",
    adapter="vaswani_plugin.search.text_model:TextModel",
    registration=_FAIRSEQ + "language_models",
    without=("encoder_layers", "share_embeddings", "next_word", "max_source_positions"),
)
ELSEWHERE = {
    "vaswani_lm_one_layer": "vaswani_plugin.ancestors.families:ONE_LAYER",
    "vaswani_lm_lstm": "vaswani_plugin.ancestors.families:LSTM_LANGUAGE_MODEL",
    "vaswani_seq2seq_lstm": "vaswani_plugin.ancestors.families:SEQ2SEQ_LSTM",
    "vaswani_attention_lstm": "vaswani_plugin.ancestors.families:ATTENTION_LSTM",
}
"""Records of other rooms, by the registered names of their models."""


def families() -> Iterator[Family]:
    """Yield all records, the paper's first; other rooms are imported when it comes to them."""
    yield from (TRANSLATOR, PARSER, LANGUAGE_MODEL)
    yield from map(resolve_name, ELSEWHERE.values())


def family_of(name: str) -> Family | None:
    """Return the family of a name in a checkpoint, a model's or a row's; None for any other."""
    for each in families():
        if name == each.model or name in {row.name for row in each.rows}:
            return TRANSLATOR if each is PARSER else each
    return None


def row_of(arch: str) -> "tuple[Family, Architecture]":
    """Return the family and the row that `--arch` names; a `KeyError` where none has the name."""
    return {row.name: (family, row) for family in families() for row in family.rows}[arch]
