"""The paper's training objective as a fairseq criterion (section 5.4).

Axes: B batch, T target length, N = B x T, D d_model, V vocabulary.
"""

import argparse
import math
from dataclasses import dataclass
from typing import Any

import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from omegaconf import II
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.fairseq_plugin.defaults import RESOLVER, SMOOTHING
from vaswani_plugin.model.configuration import option
from vaswani_plugin.modules import loss as losses


@dataclass
class LabelSmoothingConfig(FairseqDataclass):
    """The defaults are those of `vaswani_plugin/fairseq_plugin/defaults.py`."""

    label_smoothing: float = option(
        II(f"{RESOLVER}:{SMOOTHING}"),
        "epsilon_ls, spread over the V - 1 other tokens (default: 0.1; 0 for language models and "
        "recurrent models)",
    )
    report_accuracy: bool = option(False, "log the share of tokens predicted right")
    unfused_loss: bool = option(False, "form all logits at once (slower, more memory)")
    sentence_avg: bool = II("optimization.sentence_avg")


@register_criterion("vaswani_label_smoothing", dataclass=LabelSmoothingConfig)
class VaswaniLabelSmoothing(FairseqCriterion):
    """Label-smoothed cross-entropy (section 5.4); our models project features within the loss."""

    def __init__(self, task, sentence_avg, label_smoothing, report_accuracy, unfused_loss):
        super().__init__(task)
        try:
            losses.smoothing_weights(label_smoothing, len(task.target_dictionary))
        except ValueError as error:
            raise UserError(f"--label-smoothing: {error}") from error
        self.sentence_avg = sentence_avg
        self.epsilon = label_smoothing
        self.report_accuracy = report_accuracy
        self.unfused_loss = unfused_loss

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        """Add the flags; fairseq drops the type of one whose default refers to another setting."""
        super().add_args(parser)
        parser.set_defaults(label_smoothing=LabelSmoothingConfig.label_smoothing)
        for action in parser._actions:
            if action.dest == "label_smoothing":  # the default is passed, too
                action.type = lambda text: text if text.startswith("${") else float(text)

    def forward(self, model, sample, reduce: bool = True):
        """Loss of a batch in nats, the sample size that divides its gradient, and what is logged.

        Ours give features and projection separately. Without `reduce` the loss is (N,), unfused.
        """
        # Ours use the projection outside of the model's `forward`. With --find-unused-parameters
        # PyTorch's DDP marks it as unused, then refuses its gradient.
        is_plain = self.unfused_loss or getattr(model, "find_unused_parameters", False)
        if reduce and not is_plain and getattr(model, "projected_loss", None) is not None:
            features, _ = model(**_inputs(model, sample), features_only=True)
            sums = model.projected_loss(
                features.flatten(0, 1),  # (B, T, D) -> (N, D)
                model.projection_weight,
                sample["target"].flatten(),
                self.epsilon,
                self.padding_idx,
                self.report_accuracy,
            )
        else:
            sums = self._plain(model, sample, reduce)
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        logging_output = {
            "loss": sums.loss.data,
            "nll_loss": sums.nll.data,
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
        }
        if self.report_accuracy:
            logging_output["n_correct"] = sums.correct.data
            logging_output["total"] = sample["target"].ne(self.padding_idx).sum()
        return sums.loss, sample_size, logging_output

    def _plain(self, model, sample, reduce: bool) -> losses.SmoothedLoss:
        logits = model(**_inputs(model, sample))[0].flatten(0, 1)  # (B, T, V) -> (N, V)
        target = sample["target"].flatten()
        loss, nll = losses.label_smoothed_cross_entropy(
            logits, target, self.epsilon, self.padding_idx
        )
        correct = target.new_zeros(())
        if self.report_accuracy:
            correct = (logits.argmax(dim=-1).eq(target) & target.ne(self.padding_idx)).sum()
        if reduce:
            loss, nll = loss.sum(), nll.sum()
        return losses.SmoothedLoss(loss, nll, correct)

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Tensor | int]]) -> None:
        """Log loss and nll_loss in bits per token, ppl, and accuracy in percent if counted."""

        def total(key: str) -> float:
            return utils.item(sum(log.get(key, 0) for log in logging_outputs))

        tokens, sample_size = total("ntokens"), total("sample_size")
        bits = 1 / math.log(2)
        metrics.log_scalar("loss", total("loss") / sample_size * bits, sample_size, round=3)
        metrics.log_scalar("nll_loss", total("nll_loss") / tokens * bits, tokens, round=3)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))
        if total("total") > 0:
            metrics.log_scalar("total", total("total"))
            metrics.log_scalar("n_correct", total("n_correct"))
            metrics.log_derived(
                "accuracy",
                lambda meters: round(100 * meters["n_correct"].sum / meters["total"].sum, 3),
            )

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Yes: every logged value is a sum."""
        return True


def _inputs(model: torch.nn.Module, sample: dict[str, Any]) -> dict[str, Any]:
    """A model's arguments; ours also get the lengths that the host counted for the batch."""
    if "known_lengths" in sample and getattr(model, "takes_known_lengths", False):
        return {**sample["net_input"], "known_lengths": sample["known_lengths"]}
    return sample["net_input"]
