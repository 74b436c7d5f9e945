"""A folder with a valid file of every kind that the project reads, all small."""

import gzip
import io
import json
import os
import shutil
import tarfile
import zipfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import torch
import toy_bundle
import toy_language_model
import toy_parser
from bundle import make_bundle, parse_settings
from fairseq.data import Dictionary
from stock_checkpoints import as_checkpoint, as_old_checkpoint, make_stock

from vaswani_plugin.cli.__main__ import main as vaswani
from vaswani_plugin.text import bpe, wordpiece
from vaswani_plugin.text.linearization import linearize
from vaswani_plugin.text.settings import TextSettings
from vaswani_plugin.text.trees import parse_tree

SOURCES = toy_bundle.SENTENCES
TARGETS = [
    "Die Freunde des alten Arztes sahen keinen Vogel im Garten.",
    'Er sagte: "Wir kauften sieben Äpfel & eine Birne, für 5 Dollar!"',
    "Warum singen die Kinder (wieder) am ruhigen Fluss?",
    "Es regnete; der müde Bauer war froh, und die Katze schlief.",
    "Über die grünen Hügel zogen kleine Wolken zum Meer.",
]
PARAMETERS = """# a comment
DEBUG 1
MAX_ERROR 10
CUTOFF_LEN 40
LABELED 1
DELETE_LABEL TOP
DELETE_LABEL -NONE-
DELETE_LABEL_FOR_LENGTH -NONE-
QUOTE_LABEL ``
EQ_LABEL ADVP PRT
EQ_WORD that which
"""
START = """2026 | INFO | fairseq_cli.train | {'_name': None, 'common': {'_name': None, 'seed': 1}, \
'model': {'_name': 'vaswani_debug', 'd_model': 32, 'd_ff': 64, 'encoder_layers': 2, \
'decoder_layers': 2, 'heads': 4, 'd_k': None, 'd_v': None, 'positions': sinusoidal}}
2026 | INFO | fairseq.tasks.translation | [en] dictionary: 90 types
2026 | INFO | fairseq.tasks.translation | [de] dictionary: 100 types
2026 | INFO | fairseq_cli.train | num. shared model params: 12,345 (num. trained: 12,345)
2026 | INFO | fairseq_cli.train | training on 2 devices (GPUs/TPUs)
2026 | INFO | fairseq.utils | rank   0: capabilities =  8.0  ; total memory = 1 GB ; name = A100
2026 | INFO | fairseq.trainer | Loaded checkpoint a.pt (epoch 1 @ 5 updates)
"""
UPDATE = """2026 | INFO | train_inner | epoch 001:  {n} / 40 loss=5.{n}, ppl=8, wps=500, wpb=1000, \
bsz=50, num_updates={n}, lr=0.003, gnorm=1.5, wall={n}
2026 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 5 | ppl 9.5 | num_updates {n}
"""
AS_JSON = '2026 | INFO | train_inner | {"epoch": 1, "loss": "5.5", "ppl": "8", "wps": "500", \
"wpb": "1000", "bsz": "50", "num_updates": "40", "lr": "0.003", "wall": "41"}\n'
SCORES = {"tokenized": 31.25, "compound_split": 32.5, "sacrebleu": 30.0, "signature": "x"}
RESULT = {
    **{"recipe": "toy", "arch": "vaswani_debug", "bleu": SCORES, "updates": 40},
    **{"parameters": 12345, "wall_seconds": 41, "tokens_per_second": 500},
}


def _text(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _texts(root: Path) -> None:
    _text(root / "text.en", SOURCES)
    _text(root / "text.de", TARGETS)
    (root / "text.en.gz").write_bytes(gzip.compress((root / "text.en").read_bytes(), mtime=0))
    _text(root / "columns.tsv", [f"{a}\t{b}\tx" for a, b in zip(SOURCES, TARGETS, strict=True)])
    segments = [f'<seg id="{n}">{line}</seg>' for n, line in enumerate(SOURCES, 1)]
    _text(root / "test.sgm", ['<srcset setid="x">', '<doc docid="d">', *segments, "</doc>"])
    _text(root / "train.tags.en", ["<url>http://x</url>", "<title>A &amp; B</title>", *SOURCES])
    short = [[" ".join(line.split()[:2]) for line in lines] for lines in (SOURCES, TARGETS)]
    _text(root / "short.en", short[0])
    output = [
        line
        for n, (a, b) in enumerate(zip(*short, strict=True))
        for line in (
            *(f"S-{n}\t{a}", f"T-{n}\t{b}", f"H-{n}\t-0.5\t{b}", f"D-{n}\t-0.5\t{b}"),
            f"P-{n}\t" + " ".join(["-0.5"] * (len(b.split()) + 1)),
        )
    ]
    _text(root / "generate.txt", output)
    lists = [(n, a, b) for n, a in enumerate(short[1]) for b in (-0.5, -1.5)]
    _text(root / "moses.nbest", [f"{n} ||| {a} ||| lm= -1 2 ||| {b}" for n, a, b in lists])
    articles = [
        {"article": [a, a], "references": [a, b]} for a, b in zip(SOURCES, TARGETS, strict=True)
    ]
    _text(root / "summaries.jsonl", list(map(json.dumps, articles)))
    articles = [{"source": [a, a], "target": [a, b]} for a, b in zip(SOURCES, TARGETS, strict=True)]
    _text(root / "scitldr.jsonl", list(map(json.dumps, articles)))
    _text(root / "articles.csv", ["article,highlights", '"a ""b"" c. D e.\nF",a b', "x y,z"])
    _text(root / "stories" / "a.story", ["One line.", "", "@highlight", "", "a line"])


def _archives(root: Path) -> None:
    names = ("text.en", "text.en.gz", "test.sgm")
    for name in names:
        os.utime(root / name, (10**9, 10**9))
    with tarfile.open(root / "archive.tar", "w") as tar:
        for name in names:
            tar.add(root / name, name)
    (root / "archive.tgz").write_bytes(gzip.compress((root / "archive.tar").read_bytes(), mtime=0))
    with zipfile.ZipFile(root / "archive.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.write(root / name, name)


def _translation(root: Path) -> None:
    made = root / ".translation"
    made.mkdir()
    shutil.copytree(toy_bundle.write_toy_bundle(made), root / "translator")
    shutil.copy(made / "codes", root)
    _text(root / "words" / "train.en", (made / "words").read_text("utf-8").split("\n")[:-1])
    split = bpe.make_encoder(str(root / "codes"))
    units = [split(line) for line in (made / "words").read_text("utf-8").split("\n")[:-1]]
    _text(root / "words" / "train.de", units)
    counts = Counter(unit for line in units for unit in line.split())
    _text(root / "vocabulary", [f"{unit} {count}" for unit, count in counts.most_common()])
    for kind, name in (("ctranslate2", "ct2"), ("safetensors", "safe")):
        arguments = ["--model", root / "translator", "--output", root / name]
        assert vaswani(["export", "--to", kind, *map(str, arguments)]) == 0
    (root / "pieces.model").write_bytes(wordpiece.learn([str(root / "text.en")], 320, "unigram"))
    rows = wordpiece.dictionary_lines(root / "pieces.model")
    for language in ("en", "de"):
        _text(made / f"dict.{language}.txt", rows)
    toy_bundle.write_checkpoint(made, made / "pieces.pt")
    codes = f"codes={root / 'pieces.model'}"
    pairs = ["lowercase=false", "normalize_punctuation=false", "tokenizer=none"]
    settings = parse_settings([*pairs, "subwords=sentencepiece", codes], "en", "de")
    make_bundle(made / "pieces.pt", made, settings, root / "piece-translator")
    shutil.rmtree(made)


def _stock(root: Path) -> None:
    dictionary = Dictionary.load(str(root / "translator" / "dict.en.txt"))
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = make_stock(task, share_all_embeddings=True)
    torch.save(as_checkpoint(model, share_all_embeddings=True), root / "stock.pt")
    shutil.copy(root / "stock.pt", root / "stock2.pt")
    torch.save(as_old_checkpoint(model, share_all_embeddings=True), root / "old.pt")


def _language_model(root: Path) -> None:
    (root / "lm-text").mkdir()
    toy_language_model.write_data(root / "lm-text")
    (root / "lm-text" / "bin").rename(root / "lm-bin")
    settings = TextSettings("words", article_tokens=12, summary_tokens=6)
    words = [*toy_language_model.WORDS, "<sep>"]
    state, model = toy_language_model.build(root / "lm-bin", *toy_language_model.OURS)
    torch.save({**state, "model": model.state_dict()}, root / "lm.pt")
    toy_language_model.write_bundle(root / "lm", settings, words)
    _text(root / "lm-text" / "short", ["ba be bi", "bo bu", "ka ke <sep> ki"])


def _parser(root: Path) -> None:
    made = root / ".parser"
    made.mkdir()
    toy_parser.write_parser_bundle(made).rename(root / "parser")
    shutil.rmtree(made)
    trees = toy_parser.TREES[:6]
    _text(root / "gold.trees", trees)
    sequences = [linearize(parse_tree(tree)) for tree in trees]
    _text(root / "tree.words", [" ".join(words) for words, _ in sequences])
    _text(root / "tree.symbols", [" ".join(symbols) for _, symbols in sequences])
    (root / "COLLINS.prm").write_text(PARAMETERS, encoding="utf-8")


def _runs(root: Path) -> None:
    logs = root / "run" / "logs"
    logs.mkdir(parents=True)
    log = START + "".join(UPDATE.format(n=n) for n in (10, 20, 30)) + AS_JSON
    (logs / "train.log").write_text(log, encoding="utf-8")
    (root / "run" / "result.json").write_text(json.dumps(RESULT), encoding="utf-8")
    (root / "bleu.json").write_text(json.dumps(SCORES), encoding="utf-8")
    (root / "cache.json").write_text(json.dumps({"x": [[1, 2, 3, 4], "0" * 64]}), encoding="utf-8")


def write_samples(root: Path) -> None:
    """Fills the folder `root`; a relative path gives the same bytes every time."""
    for write in (_texts, _archives, _translation, _stock, _language_model, _parser, _runs):
        write(root)
    buffer = io.BytesIO()
    torch.save({"model": {"weight": torch.ones(2, 3)}}, buffer)
    (root / "small.pt").write_bytes(buffer.getvalue())
