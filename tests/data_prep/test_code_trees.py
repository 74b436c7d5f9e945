"""code_trees.py: every tree comes back from fairseq's binary form, whatever its words are."""

import random
from pathlib import Path

import code_trees
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tests.support.random_trees import random_tree
from vaswani_plugin.text.coding import make_coding
from vaswani_plugin.text.linearization import linearize, make_word_coding, restore
from vaswani_plugin.text.pipeline import Pipeline
from vaswani_plugin.text.settings import TreeSettings, read_settings_file
from vaswani_plugin.text.trees import Leaf, Tree, leaves, parse_tree, to_line

SIZES = {"train": 60, "also": 25, "valid": 20, "test": 20}
NEW = "(TOP (NEW (NEWER new)))\n"
RARE = "bark@@ <unk> </s> @-@ \U0001f600 na\u00efve".split()
FORMS = ("na\u00efve", "nai\u0308ve")  # NFC, NFD


def odd_trees(count: int, seed: int) -> list[Tree]:
    """Random trees, and words that look like parts of words or special symbols."""
    rng = random.Random(seed)
    trees = [random_tree(rng) for _ in range(count)]
    for number, word in enumerate(RARE):
        place = next(n for n, symbol in enumerate(trees[number]) if isinstance(symbol, Leaf))
        trees[number][place] = Leaf("NN", word)
    return trees


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trees")
    for seed, (split, size) in enumerate(SIZES.items()):
        lines = "".join(f"{to_line(tree)}\n" for tree in odd_trees(size, seed)).replace(*FORMS)
        (folder / split).write_text(lines + NEW * (split == "also"), encoding="utf-8")
    return folder


@pytest.fixture
def run(folder, tmp_path, monkeypatch):
    """Runs the script in this process; returns the folder that it made."""

    def run(*flags: object) -> Path:
        output = tmp_path / "bin"
        args = ["code_trees.py", "--output", output, "--workers", 1]
        for split in ("train", "valid", "test"):
            args += [f"--{split}", folder / split]
        monkeypatch.setattr("sys.argv", [*map(str, args), *map(str, flags)])
        code_trees.main(code_trees.Flags())
        return output

    return run


def read(folder: Path, split: str, side: str) -> tuple[Dictionary, list[torch.Tensor]]:
    """A side of a split as fairseq reads it."""
    dictionary = Dictionary.load(str(folder / f"dict.{side}.txt"))
    data = MMapIndexedDataset(str(folder / f"{split}.words-symbols.{side}"))
    return dictionary, [data[n] for n in range(len(data))]


PLAIN = ("--plain-closings", "--one-placeholder")


@pytest.mark.parametrize("flags, tags", [((), True), (PLAIN, False)])
def test_every_tree_comes_back(run, tags, flags):
    """And a sentence is coded as it was for training."""
    output = run("--operations", 30, *flags)
    decode = make_coding("bpe", str(output / "codes"))[1]
    pipeline = Pipeline(read_settings_file(output / "preprocessing.json"), output)
    for split, seed in (("train", 0), ("valid", 2), ("test", 3)):
        dictionary, sources = read(output, split, "words")
        symbols, targets = read(output, split, "symbols")
        trees = odd_trees(SIZES[split], seed)
        for tree, source, target in zip(trees, sources, targets, strict=True):
            assert dictionary.unk() not in source
            units = [dictionary[n] for n in source[:-1]]
            assert pipeline.encode(" ".join(linearize(tree)[0]).replace(*FORMS)).split() == units
            words = decode(" ".join(units)).split(" ")
            assert len(words) == len(leaves(tree))
            if split != "train":
                continue  # symbols that training lacks are unknown
            found = restore([symbols[n] for n in target[:-1]], words)
            if not tags:
                tree = [Leaf("XX", s.word) if isinstance(s, Leaf) else s for s in tree]
            assert found == tree
    assert pipeline.encode("  \t ") == ""
    written = ["The", "-LRB-dog-RRB-", "10\u2423a0;000"]
    encode = make_word_coding("bpe", str(output / "codes"))
    assert pipeline.encode(" The\t(dog)\u2009 \xa0 10\u00a0000 ") == encode(written)


def test_whole_words(run):
    output = run("--coding", "words", "--threshold", 2)
    dictionary, sources = read(output, "train", "words")
    kept = set(dictionary.symbols[4:])
    assert kept and not any(word.endswith("@@") for word in kept)
    for tree, source in zip(odd_trees(SIZES["train"], 0), sources, strict=True):
        words = [word if word in kept else "<unk>" for word in linearize(tree)[0]]
        assert [dictionary[n] for n in source[:-1]] == words
    assert read_settings_file(output / "preprocessing.json") == TreeSettings("words", True, True)
    encode = make_word_coding("words", None)  # a whole word never looks like part of one
    assert encode(["bark@@", "<unk>", "</s>", "@-@", "dog"]) == "<unk> <unk> <unk> @-@ dog"


def test_parsed_trees_are_a_second_training_set(run, folder):
    symbols, targets = read(run("--operations", 30, "--also", folder / "also"), "train1", "symbols")
    trees = [*odd_trees(SIZES["also"], 1), parse_tree(NEW)]
    expected = [linearize(tree, True, True)[1] for tree in trees]
    assert [[symbols[n] for n in target[:-1]] for target in targets] == expected
