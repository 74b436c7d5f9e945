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
from vaswani_plugin.export.exported_model import OF_A_RUN
from vaswani_plugin.files.lines import read_json
from vaswani_plugin.files.outputs import write_lines
from vaswani_plugin.metrics.rouge import scores_of
from vaswani_plugin.model.families import row_of
from vaswani_plugin.text.dictionary import Dictionary
from vaswani_plugin.text.settings import (
    CARD,
    CONFIG,
    AnySettings,
    Settings,
    TextSettings,
    read_settings,
)

_SIGNATURE = re.compile(r"\n<!-- vaswani card, sha256 of the lines above: ([0-9a-f]{64}) -->\n$")
_TEMPLATE = Path(__file__).with_name("model_card.md")


def write_card(folder: Path, result: Path | None = None) -> bool:
    """Write the model card of a bundle with a config.json.

    `result` is the result.json of the recipe that made it. Returns whether the card was written; a
    README.md of another origin, or that was edited, stays.
    """
    settings, config = read_settings(folder), read_json(folder / CONFIG, "copy it again")
    if "model" not in config:
        raise UserError(f"{folder}: of another program; give the bundle that it was exported from")
    facts = None if result is None else read_json(result, "run the recipe's last stage again")
    if facts is not None and "recipe" not in facts:
        raise UserError(f"{result}: not a recipe's result.json, which is in its work folder")
    arch, name = (facts or {}).get("arch"), config["model"].get("_name")
    if arch and name and arch != name:
        raise UserError(f"{result}: of {arch}; the bundle's model is {name}")
    trained = {Path(x["file"]).name: x["sha256"] for x in (facts or {}).get("binarized", ())}
    files = (name for name in settings.files() if name.startswith("dict."))
    dictionaries = {name: len(Dictionary.load(folder / name)) for name in files}
    for name in dictionaries.keys() & trained:
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != trained[name]:
            raise UserError(f"{result}: of another training: its {name} isn't the bundle's")
    text, path = model_card(settings, config, dictionaries, facts), folder / CARD
    if path.is_file():
        old = path.read_text(encoding="utf-8", errors="replace")
        signature = _SIGNATURE.search(old)
        if signature is None or signature[1] != _digest(old[: signature.start()]):
            return False
    write_lines(path, [text, f"<!-- vaswani card, sha256 of the lines above: {_digest(text)} -->"])
    return True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def front_matter(settings: AnySettings, tag: str | None, **fields: Any) -> str:
    """The YAML block at the head of a card, which model hubs read; it names no licence."""
    import yaml  # needed by this command alone, as Jinja is

    head: dict[str, Any] = {}
    if isinstance(settings, Settings):
        head["language"] = [*dict.fromkeys((settings.source_language, settings.target_language))]
    head |= {"pipeline_tag": tag} if tag else {}
    return str(yaml.safe_dump(head | fields, sort_keys=False, allow_unicode=True))


def model_card(
    settings: AnySettings,
    config: Mapping[str, Any],
    dictionaries: Mapping[str, int],
    result: Mapping[str, Any] | None,
) -> str:
    """The text of a card; without a result, facts that only it has are "not recorded"."""
    import jinja2

    result = result or {}
    task = "translation" if isinstance(settings, Settings) else "parsing"
    if isinstance(settings, TextSettings):
        task = "text-generation" if settings.article_tokens is None else "summarization"
    arch = result.get("arch") or config["model"].get("_name") or "not recorded"
    try:
        model = {"architecture": f"`{arch}` ({row_of(arch)[1].source})"}
    except KeyError:
        model = {"architecture": f"`{arch}`"}
    if "parameters" in result:
        model["parameters"] = f"{int(result['parameters']):,}"
    model |= _set({k: v for k, v in config["model"].items() if k not in {"_name", *OF_A_RUN}})
    model |= {f"symbols of `{name}`": f"{count:,}" for name, count in dictionaries.items()}
    signature = (result.get("bleu") or {}).get("signature")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    environment.filters["cell"] = lambda value: " ".join(str(value).replace("|", "\\|").split())
    environment.filters["set"] = lambda values: _set(values).items()
    tag = None if task == "parsing" else task
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        kind=task,
        front_matter=front_matter(settings, tag, library_name="vaswani_plugin", tags=["fairseq"]),
        arch=arch,
        recipe=result.get("recipe"),
        model=model.items(),
        text=vars(settings),
        data=[(entry["file"], f"{int(entry['lines']):,}") for entry in result.get("data", [])],
        training=_training(config, result),
        scores=scores_of(result) + [f"sacreBLEU's signature: `{signature}`"] * bool(signature),
        longest=config["model"].get("max_source_positions"),
        versions=list((result.get("versions") or {}).items()),
    )


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
