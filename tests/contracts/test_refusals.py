"""Flags and files that don't fit together: one line that names them, and nothing is written."""

import shlex

import pytest

from tests.support.commands import vaswani

ATTENTION = "attention --model {bundle}"
DRAWN = ("--target x", "--layer 0", "--heads 7", "--word x", "--kind encoder", "--lines")
COMPLETE = "complete --cpu --model {lm}"
RESCORE = "rescore --cpu --data {data} --nbest {nbest} --source {src} --system lstm={checkpoint}"
BAD = {
    "archs vaswani_bse": "no architecture vaswani_bse: `vaswani archs` lists them",
    f"{ATTENTION} --source ' '": "the source is an empty sentence",
    f"{ATTENTION} --source 'the cat' --heads 1 5": "--heads 5 is not in 1 ... 4",
    f"{ATTENTION} --source a --target 'the cat' --word dog": "--word dog is not in: the c@@",
    f"{ATTENTION} --source '{'x ' * 24}'": "the source has 24 subwords, the model takes 23",
    f"{ATTENTION} --source x --output picture.doc": "a plot ends in .png",
    f"{ATTENTION} --corpus a b c": "--corpus takes one file or two, not 3",
    **{f"{ATTENTION} --corpus {{src}} {x}": f"{x.split()[0]} goes with --source" for x in DRAWN},
    "average --inputs {data} --output new.pt": "is a folder: say which",
    "average --inputs {second} {second} --output new.pt": "given twice",
    "average --inputs {checkpoint} {second} --output {second}": "would be lost",
    "bleu --hypothesis /dev/null --reference {ref}": "/dev/null: the file is empty",
    "bleu --hypothesis {trees} --reference {ref}": "trees has 4 segments, ",
    "bleu --hypothesis {hyp} --reference {ref} --language German": "give a name of BCP 47",
    "bleu --hypothesis {hyp} --reference {ref} --compound-split": "goes with --tokenized",
    "bleu --hypothesis {hyp} --reference {ref} --training-source x": "needs --source FILE",
    "complexity --r 99 --n 50": "--r 99 is no restriction of --n 50",
    "complexity --k 1": "--k is 1; it must be at least 2",
    f"{COMPLETE} --top-k 3 ba": "top-k and top-p go with sampling",
    f"{COMPLETE} --max-new-tokens 32 ba": "the model has 32 positions; give at most 31",
    "cost --hours 1": "--hours needs a rate: give --device or --teraflops",
    "cost --teraflops 3": "their rate go with --hours",
    "cost --target-length 3": "the lengths and --updates go with --arch",
    "curves {src}": "src: no training statistics in it",
    "curves {data}": "tensorboard --logdir",
    "curves {log} --label a b": "--label: 2 names for 1 logs",
    "evalb {trees} {src}": "trees has 4 lines, ",
    "export --to fairseq --model {bundle} --output new --quantization int8": "means nothing with",
    "export --to fairseq --model {checkpoint} --output {checkpoint}": "would be lost",
    "export --to fairseq --model {stock} --output new": "export takes a vaswani_transformer",
    "import --checkpoint {stock} --data-bin {data} --output {data}/dict.de.txt": "would be lost",
    "lm --model {lm} --text /dev/null": "the text is empty",
    "lm --model {checkpoint} --text {words}": "is not a bundle; make one with data-prep/bundle.py",
    "lm --model {lm} --counts 1 2": "no text: give --text FILE",
    "lm --model {lm} --text {words} --tokens-per-sample 33": "32 posit",
    "lm --figure 1 bits --counts 1 2": "the unit of --figure is 'bits'; it must be bits-per-word",
    "lm --baselines --dynamic --text x --train-data x": "give --model DIR (--dynamic needs it)",
    "lm --model {lm} --dynamic-rate 9 --text x": "--dynamic-decay go with --dynamic",
    "lm --model x --text x --train-data x": "--baselines and --train-data PATH, which it counts",
    "lm --figure a bits-per-word --baselines --train-data x --text x": "--figure a bits-per-word:",
    "lm --figure -3 bits-per-byte --counts 1 2": "-3: must be at least 0",
    "lm --figure 0.5 perplexity-per-word --counts 1 2": "0.5: must be at least 1",
    "lm --figure 1 bits-per-word --counts 5 1": "--counts 5 1: a word has a character or more",
    "parse --model {bundle} {tokens}": "a translation model, and a parser is needed here",
    "positions --d-model 7": "--d-model 7: must be even, at least 2",
    f"{RESCORE} --weights best=1": "--weights best=1: must be NAME=NUMBER of score, words, lstm",
    f"{RESCORE} --weights score=inf": "--weights score=inf: inf: must be a finite number",
    f"{RESCORE} --system words=lstm.pt": "a NAME once, and not score or words",
    f"{RESCORE} --system x": "--system x: must be NAME=CHECKPOINT",
    f"{RESCORE} --system two=missing.pt": "missing.pt: No such file or directory",
    f"{RESCORE} --dev-reference x": "--dev-nbest, --dev-source and --dev-reference go together",
    f"{RESCORE} --reference {{ref}} --output {{ref}}": "is an input or another output",
    f"{RESCORE} --output {{checkpoint}}": "is an input or another output",
    "parse --model {parser} --pretty --format json": "exclude each other",
    "rouge --references {ref} --lead 1": "--lead needs a .jsonl",
    "summarize --model {lm} {words}": "was not trained to summarize",
    "translate --model {bundle} --cpu --fp16 {src}": "--fp16 needs a GPU",
    "translate --model {bundle} {src} gone --output new": "gone: No such file",
    "translate --model {bundle} --seed 1 {src}": "a seed goes with sampling",
}


@pytest.mark.parametrize("line", BAD)
def test_what_does_not_fit_is_refused_in_a_line(world, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    done = vaswani(*shlex.split(line.format(**world)))
    assert BAD[line] in done.error and done.out == ""
    assert not list(tmp_path.iterdir())
