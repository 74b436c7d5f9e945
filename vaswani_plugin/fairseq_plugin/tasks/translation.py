"""Translation (section 6.1) and parsing (section 6.3), over fairseq's translation task."""

import argparse
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data.iterators import EpochBatchIterating
from fairseq.dataclass import ChoiceEnum
from fairseq.dataclass.configs import GenerationConfig
from fairseq.logging import metrics
from fairseq.tasks import register_task
from fairseq.tasks.translation import EVAL_BLEU_ORDER, TranslationConfig, TranslationTask
from fairseq.utils import split_paths, strip_pad
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.metrics.bleu import BLEUScore

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.generator import BeamSearchGenerator
from vaswani_plugin.fairseq_plugin.tasks import _common
from vaswani_plugin.inference.checkpoints import LANGUAGES
from vaswani_plugin.model.configuration import flag, option
from vaswani_plugin.search.options import PAPER_DECODING, PARSER_DECODING, SearchOptions
from vaswani_plugin.search.well_formed import Grammar
from vaswani_plugin.text.languages import languages_of

logger = logging.getLogger(__name__)
sample_logger = logging.getLogger("sample")

BEYOND_OUR_SEARCH = {"constraints": False, "match_source_len": False, "diversity_rate": -1.0}
"""Options that only fairseq's generator supports, with the values at which they are not used."""


@dataclass
class VaswaniTranslationConfig(TranslationConfig):
    """fairseq's translation task, the choice of the length penalty, and batches."""

    length_penalty: ChoiceEnum(["paper", "fairseq"]) = option(  # type: ignore[valid-type]
        "paper",
        "what --lenpen is the exponent of: ((5 + |Y|)/6) with the authors' stopping rule (paper), "
        "or |Y| with fairseq's own search (fairseq)",
    )
    real_tokens: int = option(
        0,
        "lower --max-tokens until training batches hold on average as many real tokens a side, "
        "source and target averaged, padding left out (the paper: 25,000 an update, so 3125 with 8 "
        "batches to an update); 0 leaves --max-tokens as it is",
    )
    upsample_primary: int = option(1, "how often an epoch has the first of several training sets")
    eval_bleu_sentences: int = option(
        0, "with --eval-bleu: translate so many sentences of the validation set (0: all of it)"
    )
    decoding_is_complete: bool = option(False, argparse.SUPPRESS)
    """Whether every generation option is final (the parser's are), or fairseq's default is none."""


@register_task("vaswani_translation", dataclass=VaswaniTranslationConfig)
class VaswaniTranslationTask(_common.AutocastOnCPU, _common.DictionaryDigests, TranslationTask):
    """fairseq's translation task with the paper's decoding as its defaults."""

    cfg: VaswaniTranslationConfig
    decoding = PAPER_DECODING
    is_chosen = True  # the direction: by flags, and not by the names of the data's files
    directions: frozenset[str] = frozenset()  # of the checkpoints that were loaded

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        """Add the task's flags; in generation, make the paper's values the defaults."""
        super().add_args(parser)
        if "beam" in {action.dest for action in parser._actions}:
            parser.set_defaults(**cls.decoding, decoding_is_complete=True)

    @classmethod
    def setup_task(cls, cfg: VaswaniTranslationConfig, **kwargs) -> "VaswaniTranslationTask":
        """Load the dictionaries; fairseq knows no language such as pt-BR by the files' names."""
        unknown = json.loads(cfg.eval_bleu_args or "{}").keys() - vars(GenerationConfig())
        if unknown and "from_checkpoint" not in kwargs:  # whose training is over
            raise UserError(f"--eval-bleu-args: {min(unknown)} is no option of fairseq-generate")
        is_chosen = cfg.source_lang is not None
        if is_chosen != (cfg.target_lang is not None):  # fairseq would take both from the names
            raise UserError("give both --source-lang and --target-lang, or neither")
        if not is_chosen and (languages := languages_of(Path(split_paths(cfg.data)[0]))):
            cfg.source_lang, cfg.target_lang = languages
        task = super().setup_task(cfg, **kwargs)
        task.is_chosen = is_chosen
        task.state.merge_state_dict({LANGUAGES: [cfg.source_lang, cfg.target_lang]})
        return task

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a checkpoint's state; refuse the other direction, unless flags choose it."""
        source, target = self.cfg.source_lang, self.cfg.target_lang
        if state_dict.get(LANGUAGES) == [target, source] and not self.is_chosen:
            advice = f"give --source-lang {target} --target-lang {source}, or to fine-tune it the"
            raise UserError(f"the checkpoint is of {target}-{source}: {advice} new ones")
        self.directions |= {"-".join(state_dict.get(LANGUAGES) or [])} - {""}
        super().load_state_dict({**state_dict, LANGUAGES: [source, target]})

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs) -> None:
        """Load a split; see fairseq's task."""
        super().load_dataset(split, epoch, combine, **kwargs)
        self.datasets[split] = _common.KnownLengths(self.datasets[split])

    def get_batch_iterator(self, dataset, max_tokens=None, *args, **kwargs) -> EpochBatchIterating:
        """Batches of a data set; those of the training set hold --real-tokens, or a `UserError`."""
        make_batches = super().get_batch_iterator
        is_training = "grouped_shuffling" in kwargs  # the trainer gives it, for no other set
        # Each epoch asks again, and fairseq keeps the batches.
        if not is_training or dataset.tgt is None or dataset in self.dataset_to_epoch_iter:
            return make_batches(dataset, max_tokens, *args, **kwargs)
        indices = _common.indices_in_training(dataset, kwargs.get("max_positions"))
        if self.cfg.real_tokens and len(indices):
            wanted, sentences = self.cfg.real_tokens, kwargs.get("max_sentences")
            if sentences:  # batches would hold fewer tokens
                raise UserError(
                    f"--real-tokens {wanted} with --batch-size {sentences}: give one of the two"
                )
            multiple = kwargs.get("required_batch_size_multiple", 1)
            max_tokens = _common.fitting_max_tokens(dataset, indices, max_tokens, wanted, multiple)
        batches = make_batches(dataset, max_tokens, *args, **kwargs)
        count = len(batches.frozen_batches)
        source, target = _common.tokens_of_batches(dataset, indices, max(1, count))
        logger.info(
            f"{count} training batches of --max-tokens {max_tokens} hold on average {source:.0f}"
            f" source and {target:.0f} target tokens, padding left out"
        )
        return batches

    def valid_step(self, sample: dict[str, Any], model: Any, criterion: Any) -> tuple:
        """See fairseq's task; with --eval-bleu, the sums that chrF needs are logged, too."""
        loss, sample_size, output = super().valid_step(sample, model, criterion)
        if self.cfg.eval_bleu:
            output |= {f"_chrf_{n}": count for n, count in enumerate(self._chrf_counts)}
        return loss, sample_size, output

    def _inference_with_bleu(self, generator: Any, sample: dict[str, Any], model: Any) -> BLEUScore:
        """fairseq's BLEU of a batch; chrF's counts stay in `_chrf_counts`.

        Of --eval-bleu-sentences N those are translated that stand evenly in the set, and
        --eval-bleu-print-samples logs the first three of these, instead of one a batch.
        """

        def text(tokens: torch.Tensor, unknown: str, dictionary: Any = self.tgt_dict) -> str:
            real = strip_pad(tokens, dictionary.pad()).int().cpu()
            words = dictionary.string(real, self.cfg.eval_bleu_remove_bpe, unk_string=unknown)
            return self.tokenizer.decode(words) if self.tokenizer else words

        others = [d for name, d in self.datasets.items() if name != self.cfg.train_subset]
        size = max(map(len, others or self.datasets.values()))
        wanted = min(self.cfg.eval_bleu_sentences or size, size)
        rows = sample["id"] * wanted % size < wanted
        self._chrf_counts = [0.0] * (3 * CHRF.CHAR_ORDER)
        if not rows.any():  # several workers need the same names of sums
            return BLEU.compute_bleu([0] * EVAL_BLEU_ORDER, [0] * EVAL_BLEU_ORDER, 0, 0)
        inputs = {name: tensor[rows] for name, tensor in sample["net_input"].items()}
        hypotheses = self.inference_step(generator, [model], {**sample, "net_input": inputs})
        # as in fairseq's, an unknown word of the reference matches nothing
        outputs = [text(best["tokens"], "UNKNOWNTOKENINHYP") for best, *_ in hypotheses]
        references = [text(row, "UNKNOWNTOKENINREF") for row in sample["target"][rows]]
        if self.cfg.eval_bleu_print_samples:
            for row in (sample["id"][rows] * wanted < 3 * size).nonzero().flatten().tolist():
                shown = {"source": text(inputs["src_tokens"][row], "<unk>", self.src_dict)}
                shown |= {"translation": outputs[row], "reference": references[row]}
                sample_logger.info(json.dumps(shown, ensure_ascii=False))
        counts = CHRF()._extract_corpus_statistics(outputs, [references])  # no public name
        self._chrf_counts = np.sum(counts, axis=0).tolist()
        tokenize = "none" if self.cfg.eval_tokenized_bleu else "13a"
        return BLEU(tokenize=tokenize, force=True).corpus_score(outputs, [references])

    def reduce_metrics(self, logging_outputs: list[dict[str, Any]], criterion: Any) -> None:
        """See fairseq's task, which leaves batches out of --eval-bleu where nothing is written."""
        if any("_chrf_0" in output for output in logging_outputs):
            metrics.log_derived("bleu", _bleu)
            metrics.log_derived("chrf", lambda m: round(CHRF()._compute_f_score(m["_chrf"].sum), 2))
            if not any(output.get("_bleu_totals_0") for output in logging_outputs):
                for name in ("counts", "totals"):
                    metrics.log_scalar(f"_bleu_{name}", np.zeros(EVAL_BLEU_ORDER))
                for name in ("_bleu_sys_len", "_bleu_ref_len"):
                    metrics.log_scalar(name, sum(out.get(name, 0) for out in logging_outputs))
            names = [f"_chrf_{n}" for n in range(3 * CHRF.CHAR_ORDER)]
            sums = [float(sum(out.get(name, 0) for out in logging_outputs)) for name in names]
            metrics.log_scalar("_chrf", np.array(sums))
        super().reduce_metrics(logging_outputs, criterion)

    def build_generator(self, models, args, seq_gen_cls=None, extra_gen_cls_kwargs=None, **choose):
        """fairseq's `build_generator` with our search, and the paper's values for missing options.

        Options that our search lacks are handled by fairseq's generator, and the log says so.
        """
        asked, args = args, self.complete_decoding(args)
        names = [n for n in sorted(self.decoding) if getattr(asked, n, None) is not None]
        if changed := [n for n in names if getattr(asked, n) != getattr(args, n)]:
            ours = ", ".join(f"{name} {getattr(args, name)}" for name in changed)
            hint = "task.cfg.decoding_is_complete=True takes what it says"
            logger.warning(f"{ours}, where the configuration has fairseq's defaults; {hint}")
        extra = dict(extra_gen_cls_kwargs or {})
        pair = f"{self.cfg.source_lang}-{self.cfg.target_lang}"
        if others := self.directions - {pair}:  # those of a training are loaded later
            raise UserError(f"a checkpoint is of {min(others)}: it can't translate {pair}")
        if getattr(args, "replace_unk", None) is not None:
            if getattr(args, "print_alignment", None) == "soft":
                raise UserError("--replace-unk needs hard alignments: drop --print-alignment soft")
            args.print_alignment = "hard"
        # models return their attention in incremental decoding, or save the work
        for decoder in (model.decoder for model in models if hasattr(model, "decoder")):
            if getattr(args, "retain_dropout", False) and hasattr(decoder, "weights_are_final"):
                raise UserError("--retain-dropout: only fairseq's own models do; drop it")
            for name in ("alignment_wanted", "need_attn"):
                if hasattr(decoder, name):
                    setattr(decoder, name, bool(getattr(args, "print_alignment", None)))
            if getattr(args, "print_alignment", None) and getattr(decoder, "attention", 1) is None:
                raise UserError("--print-alignment, --replace-unk: a model without attention")
        if seq_gen_cls is None and not getattr(args, "score_reference", False):
            reason = self._unsupported_option(models, args, extra)
            if reason is None:
                return self._our_generator(models, args, extra, **choose)
            if getattr(args, "diverse_beam_groups", 0) > 0:  # fairseq's search of them fails
                raise UserError(f"--diverse-beam-groups can't go with {reason}; drop one")
            logger.warning(f"{reason}: fairseq's own generator decodes, with its length penalty")
        return super().build_generator(models, args, seq_gen_cls, extra, **choose)

    def complete_decoding(self, args: Any) -> argparse.Namespace:
        """Generation options, with the paper's values for those that the user did not give.

        In a Namespace every value counts as given. In a configuration, such as a checkpoint's, a
        value that equals fairseq's default does not, unless `decoding_is_complete`.
        """
        if isinstance(args, argparse.Namespace):
            return argparse.Namespace(**{**self.decoding, **vars(args)})
        options = {**(args if isinstance(args, Mapping) else vars(args))}
        if not self.cfg.get("decoding_is_complete", False):
            for name in self.decoding:
                if options.get(name) == getattr(GenerationConfig, name):
                    del options[name]
        return argparse.Namespace(**{**self.decoding, **options})

    def _our_generator(self, models, args, extra: dict, prefix_allowed_tokens_fn=None):
        names = {f.name for f in fields(SearchOptions)} - {"length_penalty"}
        values = {n: value for n in names if (value := getattr(args, n, None)) is not None}
        options = SearchOptions(**values, length_penalty=str(self.cfg.length_penalty))
        extra = {k: v for k, v in extra.items() if k not in ("lm_model", "lm_weight")}
        choose = prefix_allowed_tokens_fn or getattr(args, "prefix_allowed_tokens_fn", None)
        return BeamSearchGenerator(
            models, self.target_dictionary, options, prefix_allowed_tokens_fn=choose, **extra
        )

    def _unsupported_option(self, models, args, extra: dict) -> str | None:
        """Name the first of these options that our search lacks; None if it has them all."""
        if any(not hasattr(model, "encoder") for model in models):
            return "a model without encoder"
        if extra.get("lm_model") is not None:
            return "--lm-path"
        for name, unused in BEYOND_OUR_SEARCH.items():
            if getattr(args, name, unused) not in (unused, None):
                return flag(name)
        if self.cfg.length_penalty == "fairseq" and getattr(args, "diverse_beam_groups", 0) > 0:
            return "--length-penalty fairseq"
        return None


def _bleu(meters: Mapping[str, Any]) -> float:
    """BLEU of the sums of a validation so far, as fairseq rounds it."""
    names = {"correct": "counts", "total": "totals", "sys_len": "sys_len", "ref_len": "ref_len"}
    sums = {key: meters[f"_bleu_{name}"].sum for key, name in names.items()}
    lengths = {key: int(sums[key]) for key in ("sys_len", "ref_len")}
    return round(BLEU.compute_bleu(**{**sums, **lengths}, smooth_method="exp").score, 2)


@dataclass
class VaswaniParsingConfig(VaswaniTranslationConfig):
    """Our translation task with longer outputs for trees, and the choice of the constraint."""

    max_source_positions: int = option(2048, "max number of tokens in the source sequence")
    max_target_positions: int = option(4096, "max number of tokens in the target sequence")
    unconstrained: bool = option(
        False, "let the search also write what is no tree, as the paper's does"
    )


@register_task("vaswani_parsing", dataclass=VaswaniParsingConfig)
class VaswaniParsingTask(VaswaniTranslationTask):
    """Parsing (section 6.3): words, whole or in units, into a tree of text/linearization.py.

    By default our decoder writes well-formed trees only; the paper's has no such constraint.
    """

    cfg: VaswaniParsingConfig
    decoding = PARSER_DECODING

    @cached_property
    def grammar(self) -> Grammar:
        """The words and tree symbols of the dictionaries."""
        return Grammar(self.source_dictionary, self.target_dictionary)

    def _our_generator(self, models, args, extra: dict, prefix_allowed_tokens_fn=None):
        if not self.cfg.unconstrained:
            extra = {**extra, "start_tracking": (self.grammar.start_tracking,)}
        return super()._our_generator(models, args, extra, prefix_allowed_tokens_fn)
