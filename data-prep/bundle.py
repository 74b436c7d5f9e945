"""Makes a bundle: one folder with all that inference needs, for `vaswani translate --model`.

    bundle.py --model averaged.pt --data-bin data-bin --pair en-de --output WORK/model \\
        lowercase=false normalize_punctuation=false tokenizer=moses subwords=subword-nmt \\
        codes=bpe/codes beam=4

    bundle.py --model averaged.pt --data-bin data-bin --output WORK/model beam=4

KEY=VALUE sets a field of preprocessing.json; vaswani_plugin/text/settings.py explains the fields
and their defaults. The values of codes and vocabulary are paths; the files are copied. Without
--pair the model is a language model or a parser. Then --data-bin is a folder of code_text.py or
code_trees.py, and KEY=VALUE changes the preprocessing.json in it. A language model of a folder that
fairseq-preprocess wrote needs coding=words.

The checkpoint must have been trained with the dictionaries of --data-bin. It may already be in the
output folder, as model.pt.
"""

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from checkout import parser, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.checkpoints import load_checkpoint, naming, refuse_other_dictionaries
from vaswani_plugin.text.binary import read_numbers
from vaswani_plugin.text.dictionary import Dictionary
from vaswani_plugin.text.languages import languages_of, two_languages
from vaswani_plugin.text.lines import open_binary
from vaswani_plugin.text.outputs import write_atomically, write_bytes_atomically
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import (
    MODEL,
    SETTINGS,
    AnySettings,
    Settings,
    TextSettings,
    read_settings_file,
    settings_from,
)


def make_settings(pair: str | None, changes: list[str], data_bin: Path) -> AnySettings:
    """Makes settings from KEY=VALUE, or, without a pair, from those of a data folder."""
    content: dict[str, Any] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals:
            raise UserError(f"{change}: must be KEY=VALUE")
        try:
            content[key] = json.loads(value)  # true, 4
        except ValueError:
            content[key] = value
    if pair is not None:
        source, target = two_languages(pair)
        return settings_from(content | {"source_language": source, "target_language": target})
    path = data_bin / SETTINGS
    if not path.is_file() and "coding" in content:  # of fairseq-preprocess
        return settings_from(content, TextSettings)
    if not path.is_file():
        raise UserError(
            f"{path} does not exist: give --pair, or coding=words of a language model, or a folder "
            "of code_text.py or code_trees.py"
        )
    settings = read_settings_file(path)
    if isinstance(settings, Settings):
        raise UserError(f"{path}: these are the settings of a translation: give --pair")
    if settings.codes:
        settings = replace(settings, codes=str(data_bin / settings.codes))
    return settings_from(asdict(settings) | content, type(settings))


def longest_trained(sizes: np.ndarray) -> int:
    """The subwords of the longest sentence; `sizes` count the end of sentence, too.

    Without one sentence in 1,000, and always without the very longest: one odd line would let every
    long sentence pass uncut.
    """
    return int(np.sort(sizes)[-1 - max(1, len(sizes) // 1000) :].min()) - 1


def make_bundle(model: Path, data_bin: Path, settings: AnySettings, output: Path) -> list[str]:
    """Writes a bundle, and returns the names of its files.

    Codes and vocabulary in `settings` are the paths of files to copy.
    """
    names = {"codes": "codes"} if settings.codes else {}
    dictionaries = settings.dictionaries()
    if isinstance(settings, Settings):
        source, target = settings.source_language, settings.target_language
        if (languages := languages_of(data_bin) or (source, target)) != (source, target):
            raise UserError(f"--pair {source}-{target}: {data_bin} is of {'-'.join(languages)}")
        if settings.subwords == "sentencepiece":
            names["codes"] = "sentencepiece.model"
        train = data_bin / f"train.{source}-{target}.{source}"
        if settings.longest_trained is None and train.with_name(f"{train.name}.idx").is_file():
            settings = replace(settings, longest_trained=longest_trained(read_numbers(train)[1]))
        if settings.vocabulary:
            names["vocabulary"] = f"vocabulary.{source}"
    files = {MODEL: model} | {name: data_bin / name for name in dictionaries.values()}
    files |= {name: Path(getattr(settings, setting)) for setting, name in names.items()}
    for path in files.values():
        if not path.is_file():
            raise UserError(f"{path} does not exist")
    digests = {side: Dictionary.load(files[name]).digest() for side, name in dictionaries.items()}
    with naming(model):
        state = load_checkpoint(model)
        refuse_other_dictionaries(data_bin, state.get("task_state") or {}, digests)
    # Read the codes before writing anything, so that an unusable bundle is never written.
    Pipeline(settings, Path())
    output.mkdir(parents=True, exist_ok=True)
    # Without this file the folder is not a bundle: a mix of old and new files is never used.
    (output / SETTINGS).unlink(missing_ok=True)
    for name, path in files.items():
        copied = output / name
        if not (copied.exists() and copied.samefile(path)):
            with open_binary(path) as stream, write_bytes_atomically(copied) as copy:
                shutil.copyfileobj(stream, copy)
    with write_atomically(output / SETTINGS) as write:
        write(replace(settings, **names).to_json())
    return [*files, SETTINGS]


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
    settings = make_settings(args.pair, args.settings, args.data_bin)
    names = make_bundle(args.model, args.data_bin, settings, args.output)
    print(f"{args.output}: {', '.join(names)}")


if __name__ == "__main__":
    run(main)
