"""Our search as fairseq's sequence generator, over any encoder-decoder of fairseq's.

Models of this plugin decode with packed weights, others with their own `forward`.

Axes: B sentences, S source length, W beams, R = B W rows, T target length.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
from fairseq import utils
from torch import Tensor

from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniDecoder
from vaswani_plugin.model.build import packing
from vaswani_plugin.search.models import Beams, RowBeams, SearchDictionary, Sources, Start
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.search import Constraint, Search, Step


class BeamSearchGenerator(Search):
    """The sequence generator of `fairseq-generate` and `fairseq-interactive`, for an ensemble."""

    def __init__(
        self,
        models: list,
        dictionary: SearchDictionary,
        options: SearchOptions,
        *,
        symbols_to_strip_from_output: set[int] | None = None,
        prefix_allowed_tokens_fn: Callable[[int, Tensor], list[int]] | None = None,
        **settings: Any,
    ) -> None:
        if prefix_allowed_tokens_fn is not None:
            constraint = allow_only(prefix_allowed_tokens_fn)
            settings["constraints"] = (*settings.get("constraints", ()), constraint)
        super().__init__([FairseqModel(model) for model in models], dictionary, options, **settings)
        self.beam_size = options.beam
        self.symbols_to_strip_from_output = (symbols_to_strip_from_output or set()) | {self.eos}

    def generate(
        self,
        models: list,
        sample: dict,
        prefix_tokens: Tensor | None = None,
        constraints: None = None,
        bos_token: int | None = None,
    ) -> list[list[dict[str, Any]]]:
        """Translate a batch by the constructor's models, as fairseq's generator does.

        `prefix_tokens` (B, P), padded on the right, is what each output begins with. The keys of a
        hypothesis are the fields of `search.hypotheses.Found`.
        """
        inputs = dict(sample["net_input"])
        inputs.pop("prev_output_tokens", None)
        sources = inputs.pop("src_tokens")
        nbest_lists = self.run(sources, inputs, prefix_tokens, bos_token)
        results = [[hypothesis._asdict() for hypothesis in nbest] for nbest in nbest_lists]
        if self.options.print_alignment == "soft":
            for source, hypotheses in zip(sources.cpu(), results, strict=True):
                for one in hypotheses:
                    one["alignment"] = utils.extract_soft_alignment(
                        one["attention"].T, source, one["tokens"], self.pad, self.eos
                    )
        return results


def allow_only(choose: Callable[[int, Tensor], list[int]]) -> Constraint:
    """Make a constraint from fairseq's `prefix_allowed_tokens_fn`: (sentence, tokens) -> list."""

    def constrain(log_probabilities: Tensor, step: Step) -> None:
        banned = torch.ones_like(log_probabilities, dtype=torch.bool)
        history = torch.cat((step.start.expand(*banned.shape[:2], 1), step.history), dim=2)
        for place, sentence in enumerate(step.sentences.tolist()):
            for beam in range(log_probabilities.size(1)):
                banned[place, beam, choose(sentence, history[place, beam])] = False
        log_probabilities.masked_fill_(banned, -torch.inf)

    return constrain


class FairseqModel:
    """An encoder-decoder of fairseq's for our search; see `search.models.Model`."""

    def __init__(self, model: Any) -> None:
        self.model, self.decoder = model, model.decoder
        self.dictionary = getattr(model.decoder, "dictionary", None)
        self.longest_target = int(min(model.max_decoder_positions(), sys.maxsize))
        self._packing = packing()
        model.eval()

    def prepare(self) -> tuple[Start, bool]:
        decoder, packed = self.decoder, None
        is_hooked = decoder._forward_hooks or decoder._forward_pre_hooks
        kind, names = type(decoder), ("forward", "output_layer", "cache")  # what we call otherwise
        is_ours = all(getattr(kind, n, None) is getattr(VaswaniDecoder, n) for n in names)
        if self._packing is not None and is_ours and not (is_hooked or {*names} & {*vars(decoder)}):
            packed = self._packing.of(decoder, getattr(decoder, "weights_are_final", False))

        def start(sources: Sources, beam: int, with_attention: bool) -> Beams:
            inputs = {"src_tokens": sources.tokens, **sources.more}
            if getattr(self.model, "takes_known_lengths", False):
                inputs["known_lengths"] = sources.lengths
            encoder_out = self.model.encoder.forward_torchscript(inputs)
            if packed is None:
                return ForeignBeams(self.model, encoder_out)
            wanted = with_attention and decoder.alignment_wanted
            return packed.start(decoder.memory(encoder_out), beam, wanted)

        return start, packed is not None


class ForeignBeams(RowBeams):
    """`Beams` for any encoder-decoder of fairseq, with its decoder's own `forward`."""

    normalized = True

    def __init__(self, model: Any, encoder_out: Any) -> None:
        self.model = model
        self.encoder_out = encoder_out
        self.incremental = hasattr(model.decoder, "reorder_incremental_state_scripting")
        self.state: dict = {}
        self.history: Any = None  # (R, T)
        for module in model.modules():
            # Some attentions of fairseq take `beam_size` consecutive rows for one sentence. Here a
            # sentence has one row at the first step. With a beam size of 1 every row is separate.
            if hasattr(module, "set_beam_size"):
                module.set_beam_size(1)

    def step(self, tokens: Tensor, parents: Tensor | None) -> Tensor | None:
        self.follow(tokens, parents)
        new = tokens.reshape(-1, 1)
        self.history = new if parents is None else torch.cat((self.history, new), dim=1)
        decoder = self.model.decoder
        state = {"incremental_state": self.state} if self.incremental else {}
        logits, extra = decoder(self.history, encoder_out=self.encoder_out, **state)
        output = logits[:, -1:], extra
        self.log_p = self.model.get_normalized_probs(output, log_probs=True)[:, -1]
        # (R, T, S): a Transformer's in a list under "attn", a convolutional model's by itself.
        attention = extra.get("attn") if isinstance(extra, dict) else extra
        if isinstance(attention, list):
            attention = attention[0] if attention else None
        if not torch.is_tensor(attention):
            return None
        return attention[:, -1].unflatten(0, (-1, self.beams))

    def logits(self, sentences: slice) -> Tensor:
        return self.log_p.unflatten(0, (-1, self.beams))[sentences].clone()

    def select_rows(self, rows: Tensor) -> None:
        self.history = self.history.index_select(0, rows)
        self.encoder_out = self.model.encoder.reorder_encoder_out(self.encoder_out, rows)
        if self.incremental:
            self.model.decoder.reorder_incremental_state_scripting(self.state, rows)
