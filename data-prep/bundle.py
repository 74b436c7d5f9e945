"""Makes a bundle: one folder with all that inference needs, for `vaswani translate --model`.

    bundle.py --model averaged.pt --data-bin data-bin --pair en-de --output WORK/model \\
        codes=bpe/codes beam=4
    bundle.py --model averaged.pt --data-bin data-bin --output WORK/model beam=4

KEY=VALUE says how raw text became the words of --data-bin:

    lowercase=true|false               (default: true where the training text has no capitals)
    normalize_punctuation=true|false   by Moses' rules (default: false)
    tokenizer=moses|none               (default: moses where punctuation stands alone in that text)
    aggressive_dash_splits=true|false  Moses' option -a, "well @-@ known" (default: false)
    escape=true|false                  Moses' &apos; for ' and others (default: true)
    subwords=subword-nmt|sentencepiece|none   (default: by the marks @@ and ▁ in the dictionary)
    codes=FILE                         the merges, or sentencepiece's model; copied
    vocabulary=FILE, vocabulary_threshold=N   subword-nmt splits source words into no others
    beam=N                             with which the model was scored (default: 4)
    longest_trained=N                  a longer sentence is cut (default: by the training text)

Without --pair the model is a language model or a parser. Then --data-bin is of code_text.py
or code_trees.py, and KEY=VALUE, such as beam=4, changes the preprocessing.json in it, but not its
codes. A language model of a folder that fairseq-preprocess wrote needs coding=words.

The checkpoint must have been trained with the dictionaries of --data-bin. It may already be in the
output folder, as model.pt. A model.safetensors beside its config.json becomes a model.pt.
"""

import json
import re
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from checkout import Flags, run

from vaswani_plugin.errors import UserError
from vaswani_plugin.export.checkpoints import save_checkpoint
from vaswani_plugin.files.lines import open_binary
from vaswani_plugin.files.outputs import write_bytes_atomically, write_lines
from vaswani_plugin.inference.bundle import MADE_FOR
from vaswani_plugin.inference.checkpoints import load_checkpoint, naming, refuse_other_dictionaries
from vaswani_plugin.text.binary import read_numbers
from vaswani_plugin.text.bpe import join_bpe
from vaswani_plugin.text.dictionary import TEXT_DICTIONARY, Dictionary, dictionary_names
from vaswani_plugin.text.languages import languages_of, two_languages
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.raw_text import punctuation_stands
from vaswani_plugin.text.settings import (
    MODEL,
    SAFETENSORS,
    SETTINGS,
    AnySettings,
    Settings,
    TextSettings,
    read_settings_file,
    settings_from,
)


def subwords_of(known: Dictionary) -> str:
    """The kind of subwords by the marks of a dictionary."""
    marked = [sum(bool(re.fullmatch(m, word)) for word in known.symbols) for m in (".+@@", "▁.*")]
    return "subword-nmt" if marked[0] > 1 else "sentencepiece" if marked[1] > 1 else "none"


def training_text(data_bin: Path, source: str, target: str) -> tuple[str, list[str], int | None]:
    """The kind of subwords by the dictionary's marks, 1,000 source sentences, `longest_trained`."""
    known = Dictionary.load(data_bin / dictionary_names(source, target)["source"])
    subwords = subwords_of(known)
    train = next(data_bin.glob(f"train.*-*.{source}.idx"), None)  # also of the other direction
    if train is None:
        return subwords, [], None
    numbers, sizes = read_numbers(train.with_suffix(""))
    rows = np.split(numbers, np.cumsum(sizes[:1000]))[:1000]
    lines = [" ".join(known[number] for number in row[:-1]) for row in rows]
    pieces = [line.replace(" ", "").replace("▁", " ") for line in lines]
    text = pieces if subwords == "sentencepiece" else list(map(join_bpe, lines))
    return subwords, text, longest_trained(sizes)


def translation_settings(
    data_bin: Path, source: str, target: str, content: dict[str, Any], is_tokenized: bool
) -> Settings:
    """Completes settings by the training's text, and refuses those that contradict it.

    `is_tokenized`: what will be translated is as tokenized as that text, and nothing is refused.
    """
    subwords, lines, longest = training_text(data_bin, source, target)
    stands, pieces = punctuation_stands(lines), subwords == "sentencepiece"
    has_capitals = sum(line != line.lower() for line in lines) > len(lines) / 100
    is_lower = not has_capitals and any(line != line.upper() for line in lines)
    defaults = {"lowercase": is_lower, "normalize_punctuation": False, "longest_trained": longest}
    if lines or pieces:
        defaults["tokenizer"] = "moses" if stands and not pieces else "none"
    languages = {"source_language": source, "target_language": target}
    settings = settings_from({**defaults, "subwords": subwords, **content, **languages})
    wrong = {}
    if settings.subwords != subwords:
        wrong["subwords"] = f"the dictionary's are by their marks subwords={subwords}"
    if stands not in (None, settings.tokenizer == "moses") and not pieces:
        wrong["tokenizer"] = f"the training text is {'' if stands else 'not '}tokenized"
    if settings.lowercase and has_capitals and not pieces:
        wrong["lowercase"] = "the training text has capitals"
    for name, reason in ({} if is_tokenized else wrong).items():
        advice = "give --tokenized if what you translate is in the training's own tokens"
        value = f"{name}={str(getattr(settings, name)).lower()}"
        raise UserError(f"{value}, but {reason}: leave {name} out, or {advice}")
    if settings.codes and (text := [line for line in lines if "<unk>" not in line]):
        plain = replace(settings, tokenizer="none", lowercase=False, normalize_punctuation=False)
        units = " ".join(map(Pipeline(plain, Path()).encode, text)).split()
        known = {*Dictionary.load(data_bin / dictionary_names(source, target)["source"]).symbols}
        if sum(unit not in known for unit in units) > len(units) / 20:
            raise UserError("the dictionary lacks the units of codes=, or vocabulary= is missing")
    return settings


def make_settings(
    pair: str | None, changes: list[str], data_bin: Path, is_tokenized: bool = False
) -> AnySettings:
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
        if {source, target} != set(languages := languages_of(data_bin) or (source, target)):
            raise UserError(f"--pair {pair}: {data_bin} is of {'-'.join(languages)}")
        return translation_settings(data_bin, source, target, content, is_tokenized)
    path = data_bin / SETTINGS
    if not path.is_file() and "coding" in content:  # of fairseq-preprocess
        words = data_bin / TEXT_DICTIONARY
        if content["coding"] == "words" and not is_tokenized and words.is_file():
            if (marks := subwords_of(Dictionary.load(words))) != "none":
                raise UserError(f"coding=words, but {words} is of {marks}: code_text.py makes data")
        return settings_from(content, TextSettings)
    if not path.is_file():
        data = "coding=words of a language model, or a folder of code_text.py or code_trees.py"
        raise UserError(f"{path} does not exist: give --pair, or {data}")
    settings = read_settings_file(path)
    if isinstance(settings, Settings):
        raise UserError(f"{path}: these are the settings of a translation: give --pair")
    if settings.codes and content.pop("codes", ""):
        raise UserError(f"codes: those of {path} are taken; leave codes out")
    if settings.codes:
        settings = replace(settings, codes=str(data_bin / settings.codes))
    return settings_from(asdict(settings) | content, type(settings))


def longest_trained(sizes: np.ndarray) -> int:
    """The subwords of the longest sentence; `sizes` count the end of sentence, too.

    It leaves out one in 1,000, at least the longest: one odd line would let all pass uncut.
    """
    return int(np.sort(sizes)[-1 - max(1, len(sizes) // 1000) :].min()) - 1


def make_bundle(model: Path, data_bin: Path, settings: AnySettings, output: Path) -> list[str]:
    """Writes a bundle, and returns the names of its files.

    Codes and vocabulary in `settings` are the paths of files to copy.
    """
    names = {"codes": "codes"} if settings.codes else {}
    dictionaries = settings.dictionaries()
    if isinstance(settings, Settings):
        if settings.subwords == "sentencepiece":
            names["codes"] = "sentencepiece.model"
        if settings.vocabulary:
            names["vocabulary"] = f"vocabulary.{settings.source_language}"
    files = {MODEL: model} | {name: data_bin / name for name in dictionaries.values()}
    files |= {name: Path(getattr(settings, setting)) for setting, name in names.items()}
    if missing := [path for path in files.values() if not path.is_file()]:
        raise UserError(f"{missing[0]} does not exist")
    digests = {side: Dictionary.load(files[name]).digest() for side, name in dictionaries.items()}
    with naming(model):
        state = load_checkpoint(model)
        task = (state.get("cfg") or {}).get("task") or {}
        trained = task.get("source_lang") or "", task.get("target_lang") or ""
        pair = trained if all(trained) else languages_of(data_bin) or trained
        if dictionary_names(*pair[::-1]) == dictionaries:
            raise UserError(f"it is of {'-'.join(pair)}: give --pair {'-'.join(pair)}")
        refuse_other_dictionaries(data_bin, state.get("task_state") or {}, digests)
    Pipeline(settings, Path())  # reads the codes before anything is written
    output.mkdir(parents=True, exist_ok=True)
    (output / SETTINGS).unlink(missing_ok=True)  # without it a mix of old and new is no bundle
    for name, path in files.items():
        copied = output / name
        if name == MODEL and path.suffix == ".safetensors":
            save_checkpoint(state, copied)
        elif not (copied.exists() and copied.samefile(path)):
            with open_binary(path) as stream, write_bytes_atomically(copied) as copy:
                shutil.copyfileobj(stream, copy)
    for former in (SAFETENSORS, *MADE_FOR.values()):  # the former model's
        (output / former).unlink(missing_ok=True)
    write_lines(output / SETTINGS, [replace(settings, **names).to_json()])
    return [*files, SETTINGS]


def main(flags: Flags) -> None:
    flags.add("--model", type=Path, required=True, help="checkpoint, usually averaged")
    flags.add("--data-bin", type=Path, required=True, help="folder of its dictionaries")
    flags.add("--pair", help="languages of a translation model, such as en-de")
    flags.add("--output", type=Path, required=True, help="the folder to create")
    flags.add("--tokenized", action="store_true", help="the lines to translate will be tokens, too")
    flags.add("settings", nargs="*", metavar="KEY=VALUE", help="see above")
    args = flags.parse_args()
    settings = make_settings(args.pair, args.settings, args.data_bin, args.tokenized)
    names = make_bundle(args.model, args.data_bin, settings, args.output)
    shown = {name: value for name, value in asdict(settings).items() if value is not None}
    print(f"{args.output}: {', '.join(names)}; {json.dumps(shown, ensure_ascii=False)}")


if __name__ == "__main__":
    run(main, __doc__)
