"""The model card of a bundle: README.md, in Markdown, from the files of the bundle and its result.

It states only facts from these files; without a result.json much is "not recorded". Running times
are left out, so that the same training gives the same card.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.checkpoints import read_config
from vaswani_plugin.metrics.result_scores import scores_of
from vaswani_plugin.model.architectures import row_of
from vaswani_plugin.text.dictionary import Dictionary
from vaswani_plugin.text.lines import read_json
from vaswani_plugin.text.outputs import write_atomically
from vaswani_plugin.text.settings import (
    CARD,
    CONFIG,
    AnySettings,
    Settings,
    TextSettings,
    read_settings,
)

_OF_THE_RUN = ("_name", "compile", "checkpoint_activations")
"""Options of a model that say nothing of it."""
_SIGNATURE = re.compile(r"\n<!-- vaswani card, sha256 of the lines above: ([0-9a-f]{64}) -->\n$")
_TEMPLATE = Path(__file__).with_name("model_card.md")


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
    if result is not None and not (isinstance(found, dict) and "recipe" in found):
        raise UserError(f"{result}: not a recipe's result.json, which is in its work folder")
    dictionaries = {
        name: len(Dictionary.load(folder / name))
        for name in settings.files()
        if name.startswith("dict.")
    }
    try:
        text = model_card(settings, config, dictionaries, found)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{result or folder / CONFIG}: makes no model card: {error!r}") from error
    path = folder / CARD
    if path.is_file() and not _is_ours(path.read_bytes()):
        return False
    with write_atomically(path) as write:
        write(f"{text}\n<!-- vaswani card, sha256 of the lines above: {_digest(text)} -->")
    return True


def front_matter(settings: AnySettings, tag: str | None, **fields: Any) -> str:
    """The YAML block at the head of a card, which model hubs read; it names no licence."""
    import yaml  # needed by this command alone, as Jinja is

    found: dict[str, Any] = {}
    if isinstance(settings, Settings):
        found["language"] = [*dict.fromkeys((settings.source_language, settings.target_language))]
    found |= {"pipeline_tag": tag} if tag else {}
    return str(yaml.safe_dump(found | fields, sort_keys=False, allow_unicode=True))


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
    import jinja2

    result = {} if result is None else result
    kind = "translation" if isinstance(settings, Settings) else "parsing"
    if isinstance(settings, TextSettings):
        kind = "text-generation" if settings.article_tokens is None else "summarization"
    arch = result.get("arch") or config["model"].get("_name") or "not recorded"
    signature = (result.get("bleu") or {}).get("signature")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.filters["cell"] = lambda value: " ".join(str(value).replace("|", "\\|").split())
    environment.filters["set"] = lambda values: _set(values).items()
    tag = None if kind == "parsing" else kind
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        kind=kind,
        front_matter=front_matter(settings, tag, library_name="vaswani_plugin", tags=["fairseq"]),
        arch=arch,
        recipe=result.get("recipe"),
        model=_model_rows(arch, config, dictionaries, result),
        text=vars(settings),
        data=[(entry["file"], f"{int(entry['lines']):,}") for entry in result.get("data", [])],
        training=_training(config, result),
        scores=scores_of(result) + [f"sacreBLEU's signature: `{signature}`"] * bool(signature),
        longest=config["model"].get("max_source_positions"),
        versions=list((result.get("versions") or {}).items()),
    )


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
    rows += _set({k: v for k, v in config["model"].items() if k not in _OF_THE_RUN}).items()
    return rows + [(f"symbols of `{name}`", f"{count:,}") for name, count in dictionaries.items()]


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


def _set(values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are set: their value is not None, False or 0."""
    return {name: value for name, value in values.items() if value not in (None, False, 0)}


def _is_ours(content: bytes) -> bool:
    """Whether a README.md is as `write_card` wrote it."""
    text = content.decode("utf-8", "replace")
    found = _SIGNATURE.search(text)
    return found is not None and found[1] == _digest(text[: found.start()])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
