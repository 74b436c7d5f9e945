"""The tasks: decoding is the papers' unless a flag says more; dictionaries; --amp on a CPU."""

import argparse
import json

import pytest
import torch
from fairseq import tasks, utils
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.dataclass.configs import GenerationConfig
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.logging import metrics
from fairseq.sequence_generator import SequenceGenerator, SequenceGeneratorWithAlignment
from fairseq.sequence_scorer import SequenceScorer
from fairseq_flags import generation_config, training_config
from foreign_models import make_lstm
from model_factory import make_dictionary
from omegaconf import OmegaConf
from sacrebleu.metrics import BLEU, CHRF
from search_setup import make_peaked_model, make_sample, make_translation_task
from toy_bundle import write_checkpoint, write_data
from toy_parser import write_tree_data
from tree_models import make_dictionaries, make_parser, make_parsing_task

from tests.support.forks import train
from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.generator import BeamSearchGenerator
from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer
from vaswani_plugin.fairseq_plugin.tasks.translation import (
    VaswaniTranslationConfig,
    VaswaniTranslationTask,
)

SYMBOLS = 20


@pytest.fixture(scope="module")
def model():
    return make_peaked_model(SYMBOLS)


def settings(generator) -> tuple[int, float, float, int]:
    options = generator.options
    return options.beam, options.lenpen, options.max_len_a, options.max_len_b


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("", (4, 0.6, 1.0, 50)),
        ("--beam 7 --lenpen 1.1 --max-len-a 0 --max-len-b 33", (7, 1.1, 0.0, 33)),
        # fairseq's defaults, which are no silence
        ("--beam 5 --lenpen 1 --max-len-a 0 --max-len-b 200", (5, 1.0, 0.0, 200)),
    ],
)
def test_decoding_is_the_papers_unless_told(model, flags, expected):
    cfg = generation_config("--task", "vaswani_translation", *flags.split())
    task = make_translation_task(SYMBOLS, decoding_is_complete=cfg.task.decoding_is_complete)
    generator = task.build_generator([model], cfg.generation)
    assert type(generator) is BeamSearchGenerator and settings(generator) == expected


def test_a_configuration_that_no_parser_made_is_filled_up(model, caplog):
    """That of --eval-bleu-args, a checkpoint's, or Hydra's: fairseq's defaults are no choice."""
    task = make_translation_task(SYMBOLS)
    assert settings(task.build_generator([model], argparse.Namespace(beam=2))) == (2, 0.6, 1.0, 50)
    for given in (GenerationConfig(), OmegaConf.structured(GenerationConfig)):
        assert settings(task.build_generator([model], given)) == (4, 0.6, 1.0, 50)
        assert "beam 4, lenpen 0.6, max_len_a 1" in caplog.text
        given.beam, given.max_len_b = 3, 20
        assert settings(task.build_generator([model], given)) == (3, 0.6, 1.0, 20)
        assert (given.beam, given.lenpen) == (3, 1)  # it is the caller's


def test_the_hub_translates_as_the_paper_does(tmp_path):
    """fairseq's hub interface: a folder with its dictionaries, and an ensemble of two."""
    write_data(tmp_path)
    for seed, name in enumerate(("one.pt", "other.pt"), start=1):
        write_checkpoint(tmp_path, tmp_path / name, seed=seed)
    hub = VaswaniTransformer.from_pretrained(str(tmp_path), "one.pt:other.pt", max_len_a=0.0)
    assert isinstance(hub, GeneratorHubInterface) and len(hub.models) == 2
    seen, build = [], hub.task.build_generator
    hub.task.build_generator = lambda *a, **kw: seen.append(build(*a, **kw)) or seen[-1]
    assert hub.translate(["the old"], beam=3)[0]
    assert hub.translate(["the old"], beam=5, lenpen=1.0, max_len_b=200)[0]  # fairseq's defaults
    assert [*map(settings, seen)] == [(3, 0.6, 0.0, 50), (5, 1.0, 0.0, 200)]
    with pytest.raises(UserError, match="--retain-dropout: only fairseq's own models do"):
        hub.generate([hub.encode("the old")], retain_dropout=True)
    with pytest.raises(UserError, match="--retain-dropout: only fairseq's own models do"):
        VaswaniTransformer.from_pretrained(str(tmp_path), "one.pt", retain_dropout=True)


@pytest.mark.parametrize(
    ("penalty", "options", "expected", "named"),
    [
        ("paper", {"constraints": "ordered"}, SequenceGenerator, "--constraints"),
        ("paper", {"diversity_rate": 0.5}, SequenceGenerator, "--diversity-rate"),
        (
            "fairseq",
            {"diversity_rate": 0.5, "print_alignment": "hard"},
            SequenceGeneratorWithAlignment,
            "--diversity-rate",
        ),
        ("paper", {"score_reference": True}, SequenceScorer, None),
        ("paper", {"lm_path": "a language model beside"}, SequenceGenerator, "--lm-path"),
        ("paper", {}, BeamSearchGenerator, None),
    ],
    ids=str,
)
def test_the_rest_is_fairseqs_and_the_log_says_so(model, caplog, penalty, options, expected, named):
    task = make_translation_task(SYMBOLS, length_penalty=penalty)
    args = argparse.Namespace(**options)
    extra = {"lm_model": model if vars(args).pop("lm_path", False) else None, "lm_weight": 1.0}
    assert type(task.build_generator([model], args, extra_gen_cls_kwargs=extra)) is expected
    lines = [record.getMessage() for record in caplog.records if "decodes" in record.getMessage()]
    assert len(lines) == (named is not None)
    assert named is None or lines[0].startswith(f"{named}")


def test_alignments_without_attention_and_groups_beyond_our_search_are_refused(model):
    task = make_translation_task(SYMBOLS, length_penalty="fairseq")
    with pytest.raises(UserError, match="--diverse-beam-groups can't go with --length-penalty"):
        task.build_generator([model], argparse.Namespace(diverse_beam_groups=2))
    unattentive = make_lstm(task, decoder_attention="0")
    with pytest.raises(UserError, match="--print-alignment, --replace-unk: a model without att"):
        task.build_generator([unattentive], argparse.Namespace(replace_unk=""))


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_a_scorer_gives_alignments(model, kind):
    """--score-reference --print-alignment."""
    task = make_translation_task(SYMBOLS)
    args = argparse.Namespace(score_reference=True, print_alignment=kind)
    scorer = task.build_generator([model], args)
    sample = make_sample([[5, 6, 7], [8, 9]])
    sample["target"] = torch.tensor([[9, 8, 2], [7, 2, 1]])
    sample["net_input"]["prev_output_tokens"] = torch.tensor([[2, 9, 8], [2, 7, 1]])
    found = [hypotheses[0]["alignment"] for hypotheses in scorer.generate([model], sample)]
    attention = model(**sample["net_input"])[1]["attn"][0]
    sources = sample["net_input"]["src_tokens"]
    expected = [
        utils.extract_hard_alignment(attention[row].clone(), sources[row], target, 1, 2)
        for row, target in enumerate(sample["target"])
    ]
    assert found == expected and [len(pairs) for pairs in found] == [2, 1]


# Parsing.


def test_decoding_of_trees_is_the_papers_unless_told():
    generation = generation_config("--task", "vaswani_parsing").generation
    assert (generation.beam, generation.lenpen) == (21, 0.3)
    assert (generation.max_len_a, generation.max_len_b) == (1.0, 300)
    words, symbols = make_dictionaries(True, rows=60)
    task = make_parsing_task(words, symbols)
    model = make_parser(words, symbols)
    for args in (generation, argparse.Namespace()):
        options = task.build_generator([model], args).options
        assert (options.beam, options.lenpen, options.max_len_b) == (21, 0.3, 300)


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


# What all tasks share.


def task_of(dictionary: Dictionary) -> VaswaniTranslationTask:
    return VaswaniTranslationTask(VaswaniTranslationConfig(data="DATA"), dictionary, dictionary)


def test_a_checkpoint_remembers_its_dictionaries():
    state = task_of(make_dictionary(9)).state_dict()
    task = task_of(make_dictionary(9))
    task.load_state_dict(state)
    assert state.items() <= task.state_dict().items()
    task.load_state_dict({})  # older ones remember nothing
    shuffled = Dictionary()
    for number in reversed(range(9)):
        shuffled.add_symbol(f"w{number}")
    for other in (shuffled, make_dictionary(9, prefix="b")):
        with pytest.raises(ValueError, match="source dictionary of DATA is not the one"):
            task_of(other).load_state_dict(state)


def test_the_direction_is_the_checkpoints_or_a_flags(toy_data_bin):
    pairs = ({}, {"source_lang": "tgt", "target_lang": "src"}, {"source_lang": "tgt"})
    cfgs = [VaswaniTranslationConfig(data=str(toy_data_bin), **pair) for pair in pairs]
    forwards, backwards = map(VaswaniTranslationTask.setup_task, cfgs[:2])
    for state in forwards.state_dict(), backwards.state_dict():
        backwards.load_state_dict(state)
        with pytest.raises(UserError, match="is of src-tgt: it can't translate tgt-src"):
            backwards.build_generator([None], argparse.Namespace())
    with pytest.raises(ValueError, match="is of tgt-src: give --source-lang tgt --target-lang src"):
        forwards.load_state_dict(state)
    with pytest.raises(ValueError, match="give both --source-lang and --target-lang, or neither"):
        VaswaniTranslationTask.setup_task(cfgs[2])


def test_amp_on_a_cpu_learns_as_float32_does(toy_data_bin, tmp_path):
    """Nearly: its products are in bfloat16."""
    flags = ("--arch", "vaswani_debug", "--task", "vaswani_translation", "--max-tokens", "300")
    flags += ("--max-update", "30", "--warmup-updates", "40", "--lr-factor", "0.5")
    flags += ("--dropout", "0", "--num-workers", "0")
    float32 = train(tmp_path / "float32", toy_data_bin, *flags)
    amp = train(tmp_path / "amp", toy_data_bin, *flags, "--amp")
    train(tmp_path / "again", toy_data_bin, *flags, "--amp", "--max-update", "17")
    resumed = train(tmp_path / "again", toy_data_bin, *flags, "--amp")
    assert resumed.losses[-1] == amp.losses[-1]
    assert float32.code == amp.code == 0, amp.log
    assert amp.losses[-1] == pytest.approx(float32.losses[-1], rel=0.01)
    assert amp.losses != float32.losses


@pytest.mark.parametrize(("sentences", "trained"), [(0, "train"), (2, "train"), (9, "valid")])
def test_the_scores_of_a_validation(sentences, trained, monkeypatch, caplog):
    """--eval-bleu: of all batches together, and 0 where the model writes nothing at all."""
    chosen = [0, 2] if sentences == 2 else [0, 1, 2]
    options = {"eval_bleu": True, "eval_bleu_print_samples": True, "train_subset": trained}
    task = make_translation_task(SYMBOLS, **options, eval_bleu_sentences=sentences)
    task.tokenizer = task.sequence_generator = None
    task.datasets = {trained: range(99), "valid": range(3)}
    targets = [[4, 5], [4, 5, 6, 7, 8, 10], [4, 5, 6, 7]]
    outputs = [torch.tensor([*row, 2]) for row in ([], [4, 5, 6, 7, 8, 9], targets[2])]
    hypotheses, references = (
        [*map(task.tgt_dict.string, rows)] for rows in (outputs, map(torch.tensor, targets))
    )
    rows = {tuple(row): output for row, output in zip(targets, outputs, strict=True)}

    def search(_, models, sample):
        sources = sample["net_input"]["src_tokens"].tolist()
        return [[{"tokens": rows[tuple(n for n in row if n > 2)]}] for row in sources]

    monkeypatch.setattr(task, "inference_step", search)
    losses = {"loss": 1.0, "ntokens": 3, "nsentences": 1, "sample_size": 3}

    def logged(*batches: slice) -> tuple[float, float]:
        with metrics.aggregate(new_root=True) as aggregator:
            for batch in batches:
                sample = make_sample(targets[batch]) | {"id": torch.arange(3)[batch]}
                sample["target"] = sample["net_input"]["src_tokens"]
                step = task.valid_step(sample, torch.nn.Module(), lambda *_: (1, 3, {**losses}))
                task.reduce_metrics([step[2]], CrossEntropyCriterion(task, False))
        values = aggregator.get_smoothed_values()
        return values["bleu"], values["chrf"]

    assert logged(slice(0, 1)) == (0, 0)
    caplog.clear()
    with caplog.at_level("INFO", "sample"):
        scores = logged(slice(0, 1), slice(1, 2), slice(2, 3))
    hypotheses, references = ([lines[n] for n in chosen] for lines in (hypotheses, references))
    kinds = (BLEU(force=True), CHRF())
    expected = [kind.corpus_score(hypotheses, [references]).score for kind in kinds]
    assert [*scores] == [round(score, 2) for score in expected] and min(scores) > 10
    shown = [json.loads(each.message) for each in caplog.records if each.name == "sample"]
    pairs = zip(hypotheses, references, strict=True)
    assert [[*each.values()] for each in shown] == [[r, h, r] for h, r in pairs]
