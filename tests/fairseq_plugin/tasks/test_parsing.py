"""The parsing task: the paper's decoding is its default, its models, and the next word."""

import argparse

from fairseq import tasks
from fairseq_flags import generation_config, training_config
from toy_parser import write_tree_data
from tree_models import make_dictionaries, make_parser, make_parsing_task


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


def test_the_next_word_through_fairseqs_parser(tmp_path):
    flags = ("--task", "vaswani_parsing", "--arch", "vaswani_parser_debug", "--next-word")
    cfg = training_config(*flags).copy()
    cfg.task.data = str(write_tree_data(tmp_path))
    task = tasks.setup_task(cfg.task)
    decoder = task.build_model(cfg.model).decoder
    assert decoder.next_word.weight.shape == (32, 32)
    symbols = task.target_dictionary.symbols
    for symbol, counts in zip(symbols, decoder.next_word.is_word.tolist(), strict=True):
        assert counts == (symbol[0] not in "()<"), symbol
    assert decoder.next_word.ends_word.sum() == len(task.source_dictionary)  # whole words
