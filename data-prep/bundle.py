"""Makes a bundle: one folder with all that inference needs, for `vaswani translate --model`.

    bundle.py --model averaged.pt --data-bin data-bin --pair en-de --output WORK/model \\
        lowercase=false normalize_punctuation=true tokenizer=moses subwords=subword-nmt \\
        codes=bpe/codes beam=4

    bundle.py --model averaged.pt --data-bin data-bin --output WORK/model beam=4

KEY=VALUE sets a field of preprocessing.json; vaswani_plugin/text/settings.py explains the fields
and their defaults. The values of codes and vocabulary are paths; the files are copied. Without
--pair the model is a language model or a parser. Then --data-bin is a folder of code_text.py or
code_trees.py, and KEY=VALUE changes the preprocessing.json in it.

The checkpoint must have been trained with the dictionaries of --data-bin. It may already be in the
output folder, as model.pt.
"""

import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from checkout import parser, run, two_languages

from vaswani_plugin.errors import UserError
from vaswani_plugin.text.binary import read_sizes
from vaswani_plugin.text.checkpoint_outline import Outline, read_outline
from vaswani_plugin.text.dictionary import TEXT_DICTIONARY, Dictionary, dictionary_name
from vaswani_plugin.text.lines import open_binary
from vaswani_plugin.text.outputs import write_atomically, write_bytes_atomically
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import (
    MODEL,
    SETTINGS,
    SYMBOLS,
    WORDS,
    AnySettings,
    Settings,
    TextSettings,
    TreeSettings,
    read_settings_file,
    settings_from,
)

CODES_NAMES = {"subword-nmt": "codes", "sentencepiece": "sentencepiece.model"}


def parse_settings(pairs: list[str], source: str, target: str) -> Settings:
    """Makes settings from KEY=VALUE; each value is converted to its field's type.

    Raises:
        UserError: a key is unknown, or a value has the wrong type.
    """
    content = _parse_pairs(pairs, Settings)
    languages = {"source_language": source, "target_language": target}
    for key in languages.keys() & content.keys():
        raise UserError(f"{key}={content[key]}: --pair says it")
    return settings_from(languages | content)


def parse_changes(pairs: list[str], data_bin: Path) -> TextSettings | TreeSettings:
    """Reads the settings of code_text.py or code_trees.py and changes them by KEY=VALUE.

    Raises:
        UserError: the folder has no settings, a key is unknown, or a value has the wrong type.
    """
    path = data_bin / SETTINGS
    if not path.is_file():
        raise UserError(
            f"{path} does not exist: give --pair, or a folder of code_text.py or code_trees.py"
        )
    settings = read_settings_file(path)
    if isinstance(settings, Settings):
        raise UserError(f"{path}: these are the settings of a translation: give --pair")
    found = {"codes": str(data_bin / settings.codes)} if settings.codes else {}
    return replace(settings, **found | _parse_pairs(pairs, type(settings)))


def _parse_pairs(pairs: list[str], kind: type[AnySettings]) -> dict[str, Any]:
    kinds = {field.name: field.type for field in fields(kind)}
    content: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"{pair}: must be KEY=VALUE")
        if key in content:
            raise UserError(f"{pair}: {key} is given twice")
        allowed = get_args(kinds.get(key)) or (kinds.get(key),)
        if key not in kinds:
            raise UserError(f"unknown key {key}; known are {', '.join(kinds)}")
        content[key] = _convert(value, allowed)
    return content


def _convert(value: str, allowed: tuple) -> Any:
    """Converts a value to one of the allowed types; returns it unchanged if none fits.

    `settings_from` then refuses the unchanged value.
    """
    if bool in allowed and value in ("true", "false"):
        return value == "true"
    if int in allowed and value.isdecimal():
        return int(value)
    return value


def check_dictionary(side: str, path: Path, model: Path, outline: Outline) -> None:
    """Checks that the checkpoint was trained with this dictionary.

    Args:
        side: "source" or "target".
        path: of the dictionary.
        model: path of the checkpoint, for messages.
        outline: of the checkpoint.

    Raises:
        UserError: the checkpoint was trained with another dictionary, or the file is none.
        OSError: the dictionary can't be read.
    """
    dictionary = Dictionary.load(path)
    remedy = "give the --data-bin that it was trained on"
    if outline.digests.get(side) not in (None, dictionary.digest()):
        raise UserError(f"{model} was trained with another {side} dictionary than {path}: {remedy}")
    rows = outline.rows.get(side)
    if rows not in (None, len(dictionary)):
        raise UserError(
            f"{model} has {rows} rows of {side} embeddings, {path} has {len(dictionary)}: {remedy}"
        )


def copy(source: Path, target: Path) -> None:
    """Copies a file atomically; does nothing if source and target are the same file."""
    if target.exists() and source.samefile(target):
        return
    with open_binary(source) as stream, write_bytes_atomically(target) as copied:
        shutil.copyfileobj(stream, copied)


def usual_length(sizes: np.ndarray) -> int:
    """The subwords that at most 1 % of sentences exceed; `sizes` count the end of sentence, too.

    Not the greatest length: one odd line would let every long sentence pass uncut.
    """
    return int(np.quantile([2, *sizes], 0.99, method="inverted_cdf")) - 1


def make_bundle(model: Path, data_bin: Path, settings: AnySettings, output: Path) -> list[str]:
    """Writes a bundle; codes and vocabulary in `settings` are the paths of files to copy.

    Returns:
        The names of the bundle's files.

    Raises:
        UserError: a file is missing or doesn't fit the model.
        OSError: a file can't be read or written.
    """
    names = {"codes": CODES_NAMES["subword-nmt"]} if settings.codes else {}
    if isinstance(settings, TextSettings):
        if "source" in read_outline(model).rows:
            raise UserError(f"{model} is a translation model: give --pair, or a language model")
        dictionaries = {"target": TEXT_DICTIONARY}
    elif isinstance(settings, TreeSettings):
        dictionaries = {"source": dictionary_name(WORDS), "target": dictionary_name(SYMBOLS)}
    else:
        source, target = settings.source_language, settings.target_language
        dictionaries = {"source": dictionary_name(source), "target": dictionary_name(target)}
        if settings.codes:
            names["codes"] = CODES_NAMES[settings.subwords]
        train = data_bin / f"train.{source}-{target}.{source}"
        if settings.longest_trained is None and train.with_name(f"{train.name}.idx").is_file():
            settings = replace(settings, longest_trained=usual_length(read_sizes(train)))
        if settings.vocabulary:
            names["vocabulary"] = f"vocabulary.{source}"
    sources = {MODEL: model}
    for name in dictionaries.values():
        sources[name] = data_bin / name
    for setting, name in names.items():
        sources[name] = Path(getattr(settings, setting))
    for path in sources.values():
        if not path.is_file():
            raise UserError(f"{path} does not exist")
    outline = read_outline(model)
    for side, name in dictionaries.items():
        check_dictionary(side, sources[name], model, outline)
    # Read the codes before writing anything, so that an unusable bundle is never written.
    Pipeline(settings, Path())
    output.mkdir(parents=True, exist_ok=True)
    # Without this file the folder is not a bundle: a mix of old and new files is never used.
    (output / SETTINGS).unlink(missing_ok=True)
    for name, path in sources.items():
        copy(path, output / name)
    with write_atomically(output / SETTINGS) as write:
        write(replace(settings, **names).to_json())
    return [*sources, SETTINGS]


def main() -> None:
    """Command line."""
    flags = parser(__doc__)
    add = flags.add_argument
    add("--model", type=Path, required=True, help="checkpoint, usually averaged")
    add("--data-bin", type=Path, required=True, help="folder of its dictionaries")
    add("--pair", help="languages of a translation model, such as en-de")
    add("--output", type=Path, required=True, help="the folder to create")
    add("settings", nargs="*", metavar="KEY=VALUE", help="see above")
    args = flags.parse_args()
    if args.pair is None:
        settings = parse_changes(args.settings, args.data_bin)
    else:
        settings = parse_settings(args.settings, *two_languages(args.pair))
    names = make_bundle(args.model, args.data_bin, settings, args.output)
    print(f"{args.output}: {', '.join(names)}")


if __name__ == "__main__":
    run(main)
