"""Every command that reads a file, once for each kind of file that it reads.

A reader is a command line over the files of `samples.py`; `fuzzed` is the file that is broken, and
the command runs in a folder that holds a copy of what its arguments name and nothing else.
"""

import gzip
import shlex
import shutil
import sys
import zlib
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from vaswani_plugin.cli.__main__ import main as vaswani
from vaswani_plugin.errors import run as run_script

TABLE_3 = "--width-divisor 8 --depth-divisor 2 --max-tokens 8 --update-freq 1 --max-update 9"
TABLE_3 += " --max-update-big 9 --warmup-updates 2 --lr-factor 1 --seed 1"
MOSES = "lowercase=true normalize_punctuation=true tokenizer=moses subwords=subword-nmt codes=codes"
MOST_SENTENCES = 100
"""Lines for which a command has a model compute, so that it takes no longer than a case may."""


@dataclass(frozen=True)
class Reader:
    """A command and the file in its folder that is broken.

    Args:
        command: `vaswani ...`, or a script of data-prep/ or recipes/ with its arguments.
        fuzzed: the file, by its path among the samples.
    """

    command: str
    fuzzed: str

    @property
    def name(self) -> str:
        """The program and the file; told apart by the whole command where that isn't enough."""
        words = shlex.split(self.command)
        return f"{' '.join(words[: 2 if len(words) > 1 else 1])} {self.fuzzed}"

    @property
    def arguments(self) -> list[str]:
        """The words of the command."""
        return shlex.split(self.command)

    def files(self, samples: Path) -> list[str]:
        """What of the samples its folder needs: the first part of each path in its arguments."""
        words = [word.rpartition("=")[2] for word in self.arguments]
        names = {word.removesuffix("/").split("/")[0] for word in [*words, self.fuzzed]}
        return sorted(name for name in names if (samples / name).exists())

    def cut(self, content: bytes) -> bytes:
        """The first lines where the file is a text for a model; all of it elsewhere."""
        program, *words = self.arguments
        model = words[words.index("--model") + 1] if "--model" in words else None
        is_model = self.fuzzed == model or self.fuzzed.startswith(f"{model}/")
        if program != "vaswani" or model is None or is_model:
            return content
        is_packed = self.fuzzed.endswith(".gz")
        try:
            lines = (gzip.decompress(content) if is_packed else content).splitlines(keepends=True)
        except (OSError, EOFError, zlib.error):
            return content
        if len(lines) <= MOST_SENTENCES:
            return content
        text = b"".join(lines[:MOST_SENTENCES])
        return gzip.compress(text) if is_packed else text

    def copy_files(self, samples: Path, folder: Path) -> None:
        """Makes `folder` anew."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in self.files(samples):
            source = samples / name
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, folder / name)

    def run(self) -> int:
        """Runs the command in this process and in the working folder; returns its exit code."""
        program, *arguments = self.arguments
        if "<" in arguments:
            *arguments, _, source = arguments
            sys.stdin = open(source, encoding="utf-8")
        if program == "vaswani":
            return vaswani(arguments)
        main = import_module(program.removesuffix(".py")).main
        sys.argv = [program, *arguments]
        run_script(main)
        return 0


def _readers(commands: dict[str, str]) -> list[Reader]:
    """`commands`: each with the fuzzed files, between blanks."""
    return [Reader(command, file) for command, files in commands.items() for file in files.split()]


@cache
def readers() -> tuple[Reader, ...]:
    """All of them."""
    return tuple(_readers({**_CORPORA, **_SUBWORDS, **_TREES, **_SCORES, **_MODELS, **_RUNS}))


_CORPORA = {
    "check_corpus.py text.en text.de --clean out.en out.de --drop-duplicates": "text.de",
    "sentences.py test.sgm --output out": "test.sgm",
    "sentences.py train.tags.en --output out": "train.tags.en",
    "normalize_tokenize.py --language en --input text.en --output out --workers 1": "text.en",
    "summaries.py --format jsonl --input summaries.jsonl --output out": "summaries.jsonl",
    "summaries.py --format scitldr --input scitldr.jsonl --output out": "scitldr.jsonl",
    "summaries.py --format csv --input articles.csv --output out": "articles.csv",
    "split_groups.py text.en text.de --output out --valid 1 --test 1": "text.en",
}
_SUBWORDS = {
    "bpe.py learn --input words/train.en --output out --workers 1": "words/train.en",
    "bpe.py apply --codes codes --input words/train.en --output out --workers 1": "codes",
    "bpe.py apply --codes codes --input text.en.gz --output out --workers 1": "text.en.gz",
    "bpe.py apply --codes codes --vocabulary vocabulary --vocabulary-threshold 2 --input text.en "
    "--output out --workers 1": "vocabulary codes",
    "wordpiece.py apply --model pieces.model --input text.en --output out --workers 1": (
        "pieces.model text.en"
    ),
    "wordpiece.py undo --model pieces.model --input words/train.de --output out --workers 1": (
        "pieces.model words/train.de"
    ),
    "wordpiece.py dictionary --model pieces.model --output out": "pieces.model",
    "binarize.py --pair en-de --train words/train --valid words/train --test words/train "
    "--output out --workers 1": "words/train.en",
    "binarize.py --pair en-de --train words/train --valid words/train --test words/train "
    "--dictionary vocabulary --output out --workers 1": "vocabulary",
    "bundle.py --model translator/model.pt --data-bin translator --pair en-de --output out "
    + MOSES: ("translator/model.pt translator/dict.en.txt codes"),
    "bundle.py --model lm/model.pt --data-bin lm --output out beam=2": (
        "lm/model.pt lm/preprocessing.json lm/dict.txt"
    ),
    "bundle.py --model parser/model.pt --data-bin parser --output out": (
        "parser/preprocessing.json parser/codes"
    ),
    "code_text.py --coding bpe --operations 20 --train lm-text/valid --valid lm-text/valid "
    "--test lm-text/valid --output out --workers 1": "lm-text/valid",
    "code_text.py --coding characters --train lm-text/short --valid lm-text/short "
    "--test lm-text/short --output out --workers 1": "lm-text/short",
}
_TREES = {
    "trees.py clean gold.trees --output out": "gold.trees",
    "trees.py linearize gold.trees --source out.a --target out.b": "gold.trees",
    "code_trees.py --train gold.trees --valid gold.trees --test gold.trees --operations 20 "
    "--output out --workers 1": "gold.trees",
    "vaswani evalb gold.trees gold.trees --summary": "gold.trees",
    "vaswani evalb gold.trees gold.trees --parameters COLLINS.prm": "COLLINS.prm gold.trees",
    "parsing_scores.py --train gold.trees --gold gold.trees --parsed gold.trees "
    "--unconstrained gold.trees --tagged out": "gold.trees",
}
_SCORES = {
    "vaswani bleu --hypothesis text.de --reference text.de --language de": "text.de",
    "vaswani bleu --generate-output generate.txt --remove-bpe --format json": "generate.txt",
    "vaswani bleu --hypothesis text.de --reference text.de --source text.en "
    "--training-source text.en.gz": "text.en text.en.gz",
    "vaswani rouge --hypothesis text.en --references summaries.jsonl --lead 1": (
        "summaries.jsonl text.en"
    ),
    "vaswani rescore --data translator --nbest moses.nbest --source short.en --reference text.de "
    "--bpe-codes codes --system a=translator/model.pt --output out --output-nbest out2 --cpu": (
        "moses.nbest short.en codes translator/model.pt translator/dict.de.txt"
    ),
}
_MODELS = {
    "vaswani average --inputs small.pt --output out.pt": "small.pt",
    "vaswani average --inputs stock.pt stock2.pt --output out.pt": "stock.pt stock2.pt",
    "vaswani translate --model translator --cpu --beam 1 --long truncate text.en": "text.en",
    "vaswani translate --model translator --cpu short.en": (
        "translator/model.pt translator/dict.de.txt translator/codes translator/preprocessing.json"
    ),
    "vaswani translate --model piece-translator --cpu --format json --long truncate text.en.gz": (
        "piece-translator/sentencepiece.model piece-translator/preprocessing.json text.en.gz"
    ),
    "vaswani translate --model ct2 --cpu short.en": (
        "ct2/config.json ct2/shared_vocabulary.json ct2/preprocessing.json ct2/dict.en.txt"
    ),
    "vaswani translate --model safe --cpu short.en": (
        "safe/model.safetensors safe/config.json safe/dict.de.txt"
    ),
    "vaswani card --model safe --result run/result.json": (
        "run/result.json safe/config.json safe/preprocessing.json safe/dict.en.txt"
    ),
    "vaswani parse --model parser --cpu tree.words": (
        "parser/model.pt parser/dict.symbols.txt parser/codes parser/preprocessing.json tree.words"
    ),
    "vaswani lm --model lm --text lm-text/short --cpu": (
        "lm/model.pt lm/dict.txt lm/preprocessing.json lm-text/short"
    ),
    "vaswani lm --model lm.pt --data-bin lm-bin --split test --cpu --baselines": (
        "lm-bin/test.idx lm-bin/test.bin lm-bin/train.bin lm-bin/dict.txt"
    ),
    "vaswani complete --model lm --cpu --max-new-tokens 5 < lm-text/short": (
        "lm/model.pt lm/dict.txt lm/preprocessing.json lm-text/short"
    ),
    "vaswani summarize --model lm --cpu lm-text/short": "lm/preprocessing.json lm-text/short",
    "vaswani import --checkpoint stock.pt --data-bin translator --output out.pt": (
        "stock.pt translator/dict.en.txt"
    ),
    "vaswani import --checkpoint old.pt --data-bin translator --output out.pt": "old.pt",
    "vaswani export --to fairseq --allow-layer-norm-eps --model translator --output out.pt": (
        "translator/model.pt"
    ),
    "vaswani export --to ctranslate2 --model translator --output out": (
        "translator/model.pt translator/preprocessing.json translator/dict.de.txt"
    ),
    "vaswani attention --model translator --source 'The cat slept.' --output out.html": (
        "translator/model.pt translator/preprocessing.json"
    ),
    "vaswani attention --model translator --corpus short.en short.en": "short.en",
}
_RUNS = {
    "vaswani curves run --format json": "run/logs/train.log",
}
