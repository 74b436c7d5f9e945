"""The model card of a bundle: README.md, in Markdown, from the files of the bundle and its result.

It states only facts from these files; without a result.json much is "not recorded". Running times
are left out, so that the same training gives the same card.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vaswani_plugin.inference.safetensors_file import read_config
from vaswani_plugin.metrics.result_scores import scores_of
from vaswani_plugin.model.architectures import row_of
from vaswani_plugin.text.corpus_io import read_json
from vaswani_plugin.text.dictionary import Dictionary
from vaswani_plugin.text.messages import InputError
from vaswani_plugin.text.output_files import write_atomically
from vaswani_plugin.text.settings import (
    CARD,
    CONFIG,
    AnySettings,
    Settings,
    TextSettings,
    read_settings,
)

SIZES = (
    *("d_model", "d_ff", "encoder_layers", "decoder_layers", "layers", "heads", "d_k", "d_v"),
    *("d_hidden", "dropout", "positions", "share_embeddings", "attention_window", "next_word"),
    *("input_feeding", "max_source_positions", "max_target_positions", "tokens_per_sample"),
)
"""Options of a model that its card lists if they are set."""
_SIGNATURE = re.compile(r"\n<!-- vaswani card, sha256 of the lines above: ([0-9a-f]{64}) -->\n$")


@dataclass(frozen=True)
class Kind:
    """The texts of a card that depend on the kind of model.

    Args:
        task: what the model does, the predicate of a sentence.
        tag: the task's name on model hubs, if it has one.
        shell: a command that uses the model.
        python: Python code that uses the model.
        limits: in addition to the limits of every model.
    """

    task: str
    tag: str | None
    shell: str
    python: str
    limits: tuple[str, ...]


LANGUAGE_MODEL = Kind(
    "continues text",
    "text-generation",
    "vaswani complete --model MODEL 'The'",
    "from vaswani_plugin import LanguageModel\n\n"
    'LanguageModel.from_pretrained("MODEL").complete("The")',
    ("It continues text in the manner of its training text; it answers no questions.",),
)
SUMMARIZER = Kind(
    "summarizes articles",
    "summarization",
    "vaswani summarize --model MODEL < articles > summaries",
    LANGUAGE_MODEL.python,
    ("It may state what the article doesn't say.",),
)
PARSER = Kind(
    "parses sentences into constituency trees",
    None,
    "vaswani parse --model MODEL < sentences > trees",
    'from vaswani_plugin import Parser\n\nParser.from_pretrained("MODEL").parse("The dog barks .")',
    ("Input is words divided by blanks, tokenized as the treebank is.",),
)


def write_card(folder: Path, result: Path | None = None) -> bool:
    """Write the model card of a bundle.

    Args:
        folder: the bundle, with its config.json.
        result: the result.json of the recipe that made it.

    Returns:
        Whether the card was written. False: README.md has another origin or was edited, and stays.

    Raises:
        ValueError: no bundle, or a file of it or the result can't be used; names it.
        OSError: a file can't be read or written.
    """
    settings, config = read_settings(folder), read_config(folder / CONFIG)
    found = None if result is None else read_json(result, "run the recipe's last stage again")
    dictionaries = {
        name: len(Dictionary.load(folder / name))
        for name in settings.files()
        if name.startswith("dict.")
    }
    try:
        text = model_card(settings, config, dictionaries, found)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{result or folder / CONFIG}: makes no model card: {error!r}") from error
    path = folder / CARD
    if path.is_file() and not _is_ours(path.read_bytes()):
        return False
    with write_atomically(path) as write:
        write(f"{text}\n<!-- vaswani card, sha256 of the lines above: {_digest(text)} -->")
    return True


def find_result(folder: Path) -> Path | None:
    """The result.json beside a bundle's folder, if it describes that bundle."""
    path = folder.resolve().parent / "result.json"
    if not path.is_file():
        return None
    content = read_json(path, "run the recipe's last stage again")
    paths = content.get("paths") if isinstance(content, dict) else None
    is_of_it = isinstance(paths, dict) and paths.get("bundle") == folder.resolve().name
    return path if is_of_it else None


def model_card(
    settings: AnySettings,
    config: Mapping[str, Any],
    dictionaries: Mapping[str, int],
    result: Mapping[str, Any] | None,
) -> str:
    """The text of a card.

    Args:
        settings: of the bundle.
        config: its config.json.
        dictionaries: symbols of each dictionary, by its file.
        result: the recipe's result.json; None: facts that only it has are "not recorded".

    Raises:
        AttributeError, KeyError, TypeError, ValueError: `config` or `result` has another content.
    """
    kind, result = kind_of(settings), {} if result is None else result
    arch = result.get("arch") or config["model"].get("_name") or "not recorded"
    maker = f"the recipe `{result['recipe']}` of " if "recipe" in result else ""
    parts = [
        _front_matter(settings, kind),
        f"# {_title(settings, kind)}: {arch}",
        f"This model {kind.task}. It was trained by {maker}vaswani_plugin, a reproduction of "
        '"Attention Is All You Need" (Vaswani et al., 2017).',
        "## Model",
        _table("", "", _model_rows(arch, config, dictionaries, result)),
        "## Text",
        _table("setting", "value", _set(vars(settings))),
        "## Data",
        _data(result),
        "## Training",
        _training(config, result),
        "## Scores",
        _scores(result),
        "## Use",
        f"```bash\n{kind.shell}\n```\n\n```python\n{kind.python}\n```\n\n`MODEL` is this folder.",
        "## Limits",
        _list([*_limits(config), *kind.limits]),
        "## Versions",
        _table("package", "version", (result.get("versions") or {}).items()) or "Not recorded.",
        "## Licence",
        "Not stated: it is for the owner of the model to choose, as far as the terms of the "
        "training data allow.",
    ]
    return "\n\n".join(parts) + "\n"


def kind_of(settings: AnySettings) -> Kind:
    """The kind of model that a bundle with these settings holds."""
    if isinstance(settings, Settings):
        source, target = settings.source_language, settings.target_language
        return Kind(
            f"translates from `{source}` to `{target}`",
            "translation",
            f"vaswani translate --model MODEL < input.{source} > output.{target}",
            "from vaswani_plugin import Translator\n\n"
            'print(Translator.from_pretrained("MODEL").translate("...").text)',
            ("It translates sentence by sentence and sees no context beyond a line.",),
        )
    if isinstance(settings, TextSettings):
        return LANGUAGE_MODEL if settings.article_tokens is None else SUMMARIZER
    return PARSER


def _title(settings: AnySettings, kind: Kind) -> str:
    if isinstance(settings, Settings):
        return f"Translation {settings.source_language}-{settings.target_language}"
    names = {LANGUAGE_MODEL: "Language model", SUMMARIZER: "Summaries", PARSER: "Parser"}
    return names[kind]


def _front_matter(settings: AnySettings, kind: Kind) -> str:
    """The block that model hubs read; it names no licence."""
    lines = ["---"]
    if isinstance(settings, Settings):
        languages = dict.fromkeys((settings.source_language, settings.target_language))
        lines += ["language:", *(f"- {language}" for language in languages)]
    lines.append("library_name: vaswani_plugin")
    if kind.tag:
        lines.append(f"pipeline_tag: {kind.tag}")
    return "\n".join([*lines, "tags:", "- fairseq", "---"])


def _model_rows(
    arch: str,
    config: Mapping[str, Any],
    dictionaries: Mapping[str, int],
    result: Mapping[str, Any],
) -> list[tuple[str, Any]]:
    try:
        source = f"`{arch}` ({row_of(arch).source})"
    except KeyError:
        source = f"`{arch}`"
    rows: list[tuple[str, Any]] = [("architecture", source)]
    if "parameters" in result:
        rows.append(("parameters", f"{int(result['parameters']):,}"))
    options = config["model"]
    rows += _set({name: options.get(name) for name in SIZES}).items()
    return rows + [(f"symbols of `{name}`", f"{count:,}") for name, count in dictionaries.items()]


def _data(result: Mapping[str, Any]) -> str:
    rows = [(entry["file"], f"{int(entry['lines']):,}") for entry in result.get("data", [])]
    return _table("file", "lines", rows) or "Not recorded."


def _training(config: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    updates = int(result.get("updates", config["updates"]))
    batch, training = "", config["training"]
    if training.get("max_tokens"):
        batch = f", batches of at most {training['max_tokens']:,} tokens, padding included"
        frequency = (training.get("update_freq") or [1])[-1]
        for count, what in ((frequency, "batches"), (training.get("workers") or 1, "workers")):
            batch += f", of {count} {what} together" if count > 1 else ""
    seed = "" if training.get("seed") is None else f", seed {training['seed']}"
    return f"{updates:,} updates{batch}{seed}."


def _scores(result: Mapping[str, Any]) -> str:
    lines = scores_of(result)
    signature = (result.get("bleu") or {}).get("signature")
    if signature:
        lines.append(f"sacreBLEU's signature: `{signature}`")
    return f"On the test set of the recipe:\n\n{_list(lines)}" if lines else "Not recorded."


def _limits(config: Mapping[str, Any]) -> list[str]:
    longest = config["model"].get("max_source_positions")
    limits = [
        "The scores hold for text of the kind that it was trained on; other text comes out worse.",
        "Nothing was done about errors, bias or offence in the training data.",
    ]
    if isinstance(longest, int):
        limits.insert(0, f"It takes at most {longest - 1:,} subwords a line.")
    return limits


def _set(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are set: their value is not None, False or 0."""
    return {name: value for name, value in values.items() if value not in (None, False, 0)}


def _table(left: str, right: str, rows: Iterable[tuple[str, Any]] | Any) -> str:
    """A table of two columns; empty without rows."""
    items = rows.items() if isinstance(rows, Mapping) else rows
    lines = [f"| {_cell(name)} | {_cell(value)} |" for name, value in items]
    return "\n".join([f"| {left} | {right} |", "|---|---|", *lines]) if lines else ""


def _cell(value: Any) -> str:
    return " ".join(str(value).replace("|", "\\|").split())


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {' '.join(line.split())}" for line in lines)


def _is_ours(content: bytes) -> bool:
    """Whether a README.md is as `write_card` wrote it."""
    text = content.decode("utf-8", "replace")
    found = _SIGNATURE.search(text)
    return found is not None and found[1] == _digest(text[: found.start()])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
