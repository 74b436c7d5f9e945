"""The parsing task: the paper's decoding is its default, corpora are mixed, outputs are trees."""

import argparse

import code_trees
import pytest
import toy_text
from fairseq import tasks
from fairseq_flags import generation_config, training_config
from model_factory import make_model
from tree_models import make_dictionaries, make_parser, make_parsing_task

from vaswani_plugin.model.architectures import PARSERS
from vaswani_plugin.text.settings import TreeSettings


def test_decoding_is_the_papers_unless_told():
    generation = generation_config("--task", "vaswani_parsing").generation
    assert (generation.beam, generation.lenpen) == (21, 0.3)
    assert (generation.max_len_a, generation.max_len_b) == (1.0, 300)
    words, symbols = make_dictionaries(True, rows=60)
    task = make_parsing_task(words, symbols)
    model = make_parser(words, symbols)
    for args in (generation, argparse.Namespace()):
        options = task.build_generator([model], args).options
        assert (options.beam, options.lenpen, options.max_len_b) == (21, 0.3, 300)
    flags = ("--beam", "5", "--lenpen", "1", "--max-len-b", "200")
    cfg = generation_config("--task", "vaswani_parsing", *flags)
    task.cfg.decoding_is_complete = cfg.task.decoding_is_complete  # as fairseq-generate makes it
    options = task.build_generator([model], cfg.generation).options
    assert (options.beam, options.lenpen, options.max_len_b) == (5, 1, 200)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """20 hand-made trees, 7 that a parser made."""
    folder = tmp_path_factory.mktemp("mixed")
    trees = toy_text.toy_lines(toy_text.TREES, 37)
    parts = {"train": trees[:20], "train1": trees[20:27], "valid": trees[27:], "test": trees[27:]}
    for split, lines in parts.items():
        (folder / split).write_text("".join(f"{line}\n" for line in lines))
    files = {split: [str(folder / split)] for split in parts}
    settings = TreeSettings("words", True, True)
    code_trees.code_trees(files, settings, folder / "bin", 1, 0, 1)
    return folder / "bin"


@pytest.mark.parametrize("ratio", [1, 3])
def test_two_corpora_are_mixed_by_a_ratio(data, ratio):
    """As fairseq-train loads them; every sample is where its source and target belong together."""
    flags = ("--task", "vaswani_parsing", "--arch", "vaswani_parser_debug")
    cfg = training_config(*flags, "--upsample-primary", str(ratio)).copy()
    cfg.task.data = str(data)
    task = tasks.setup_task(cfg.task)
    task.load_dataset("train", combine=True)
    dataset = task.dataset("train")
    assert len(dataset) == ratio * 20 + 7
    source, target = task.source_dictionary.string, task.target_dictionary.string
    found = [dataset[n] for n in range(len(dataset))]
    samples = [(source(sample["source"]), target(sample["target"])) for sample in found]
    assert samples[:20] * ratio == samples[: 20 * ratio]
    assert len(set(samples)) == 27
    assert all(
        len(source.split()) == sum(part[0] not in "()" for part in target.split())
        for source, target in samples
    )
    order = dataset.ordered_indices()
    assert sorted(order.tolist()) == list(range(len(dataset)))


@pytest.mark.parametrize("row", PARSERS, ids=lambda row: row.name)
def test_rows_through_fairseqs_parser(data, row):
    flags = ("--task", "vaswani_parsing", "--arch", row.name)
    cfg = training_config(*flags).copy()
    assert {key: cfg.model[key] for key in row.changes} == row.changes
    if row.name == "vaswani_parser":
        paper = {
            "encoder_layers": 4,
            "decoder_layers": 4,
            "d_model": 1024,
            "d_ff": 2048,
            "heads": 8,
        }
        assert {key: cfg.model[key] for key in paper} == paper
        return
    cfg.task.data = str(data)
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model)
    assert model.projection_weight is model.decoder.embedding.weight
    assert len(model.encoder.embedding.weight) == len(task.source_dictionary)
    assert model.max_positions() == (2048, 4096)


def test_the_next_word_through_fairseqs_parser(data):
    flags = ("--task", "vaswani_parsing", "--arch", "vaswani_parser_debug", "--next-word")
    cfg = training_config(*flags).copy()
    cfg.task.data = str(data)
    task = tasks.setup_task(cfg.task)
    decoder = task.build_model(cfg.model).decoder
    assert decoder.next_word.weight.shape == (32, 32)
    symbols = task.target_dictionary.symbols
    for symbol, counts in zip(symbols, decoder.next_word.is_word.tolist(), strict=True):
        assert counts == (symbol[0] not in "()<"), symbol
    assert decoder.next_word.ends_word.sum() == len(task.source_dictionary)  # whole words


def test_the_next_word_is_for_parsers():
    with pytest.raises(ValueError, match="--next-word is for --task vaswani_parsing"):
        make_model(next_word=True)
