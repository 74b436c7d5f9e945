"""What all exports share: reading and checking the model, fairseq's names, complete folders."""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.bundle import Bundle
from vaswani_plugin.inference.checkpoints import Loaded, naming
from vaswani_plugin.model.configuration import Configuration, flag, head_sizes
from vaswani_plugin.modules.embedding import FAIRSEQ_FIRST_POSITION
from vaswani_plugin.modules.transformer import DecoderOnly, EncoderDecoder
from vaswani_plugin.text.dictionary import EOS, PAD, UNK
from vaswani_plugin.text.settings import CARD, MODEL, SETTINGS, AnySettings, Settings, weights_path

Weights = dict[str, Tensor]
SIDES = ("encoder", "decoder")

OF_EVERY_EXPORT = set(
    "d_model d_ff encoder_layers decoder_layers heads share_embeddings dropout attention_dropout "
    "activation_dropout max_source_positions max_target_positions".split()
)
OF_A_RUN = {"checkpoint_activations", "compile"}  # they say nothing of a model
OF_EVERY_EXPORT |= {"initial_weights", *OF_A_RUN}
"""The options that each export writes, or that leave no trace."""
EXPRESSED: dict[str, dict[str, dict[str, dict[str, Any]]]] = {
    "Hugging Face's Marian": {"layer_norm_eps": {}},
    "Hugging Face's OpenAI GPT": {
        "layer_norm_eps": {},
        "positions": {},
        "norm": {"pre": {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}},
    },
    "fairseq's transformer": {
        "layer_norm_eps": {},
        "positions": {},
        "norm": {"pre": {f"{side}_normalize_before": True for side in SIDES}},
    },
    "CTranslate2": {"layer_norm_eps": {}, "positions": {}, "norm": {"pre": {"pre_norm": True}}},
    "an ONNX export": dict.fromkeys(
        ("layer_norm_eps", "positions", "norm", "d_k", "d_v", "attention_scale"), {}
    ),
}
"""What else each program can express, and its own options for values of it where it has some; any
other option must have its default."""
LENGTHS = ((33, 2, 20, 3, 9, 5), (17, 33, 1, 6, 2, 25))
"""Of the sentences that an export is compared on, source and target, in tokens with </s>."""
TOLERANCE = 1e-4  # greatest difference of log P, in nats: float32's rounding in two programs


def read_model(folder: Path, kind: type[AnySettings] = Settings) -> tuple[Any, Loaded]:
    """The settings and the model of a bundle of this kind; other programs may express it."""
    bundle = Bundle.load(folder, kind)
    loaded, path = bundle.load_model(), weights_path(folder)
    if not isinstance(loaded.sizes, Configuration):
        raise UserError(f"{path} holds no Transformer: one is needed")
    with naming(path):
        require_finite(loaded.model.state_dict())
    return bundle.pipeline.settings, loaded


def require_finite(weights: Mapping[str, Tensor]) -> None:
    """Refuse weights that are NaN or infinite, by name."""
    for name, tensor in weights.items():
        if not tensor.isfinite().all():
            raise UserError(f"{name} holds NaN or infinity: training diverged; use an earlier one")


def refuse_departures(
    program: str, sizes: Configuration, others: Iterable[str] = (), remedy: str = ""
) -> dict[str, Any]:
    """Refuse options that a program lacks, and `others`; return its own options for ours."""
    d_k, d_v = head_sizes(sizes)
    if d_k * sizes.heads == d_v * sizes.heads == sizes.d_model:
        sizes = replace(sizes, d_k=None, d_v=None)
    theirs = EXPRESSED[program]
    departures = [
        f"{flag(each.name)} {getattr(sizes, each.name)}"
        for each in fields(sizes)
        if each.name not in OF_EVERY_EXPORT | theirs.keys()
        and getattr(sizes, each.name) != each.default
    ]
    refuse(program, [*departures, *others], remedy)
    chosen = (of_values.get(getattr(sizes, name), {}) for name, of_values in theirs.items())
    return {name: value for options in chosen for name, value in options.items()}


def refuse(program: str, options: list[str], remedy: str = "") -> None:
    """Refuse a model with options (flags with values) that a program can't express."""
    if options:
        raise UserError(f"{program} has no counterpart of {', '.join(options)}{remedy}")


class Pairs(NamedTuple):
    """Sentences of a model's vocabularies, padded on the right; each ends with </s>."""

    source: Tensor  # (B, S)
    previous: Tensor  # (B, T), the targets shifted right
    target: Tensor  # (B, T)

    def log_p(self, logits: Tensor) -> Tensor:
        """Logits (B, T, V) of the next tokens -> log P of the targets (B, T), 0 at padding."""
        log_p = logits.log_softmax(-1).gather(-1, self.target[..., None])[..., 0]
        return log_p.masked_fill(self.target.eq(PAD), 0.0)


def random_pairs(model: EncoderDecoder | DecoderOnly) -> Pairs:
    """Draw pairs of many lengths, the same ones each time."""
    random, sides = torch.Generator("cpu").manual_seed(1), []
    for side, counts in zip(SIDES, LENGTHS, strict=True):
        half: Any = getattr(model, side, model)  # a language model has no halves
        longest = min(max(counts), half.positions.max_positions)
        shape, words = (len(counts), longest), len(half.embedding.weight)
        rows = torch.randint(UNK, words, shape, generator=random, device="cpu")
        left = rows.new_tensor(counts)[:, None].clamp(max=longest) - torch.ones_like(rows).cumsum(1)
        sides.append(rows.masked_fill(left.eq(0), EOS).masked_fill(left.lt(0), PAD))
    source, target = sides
    previous = target.roll(1, dims=1).masked_fill(target.eq(PAD), PAD)
    previous[:, 0] = EOS
    return Pairs(source, previous, target)


@torch.no_grad()
def require_equal(
    program: str, model: Any, their_log_p: Callable[[Pairs], Tensor], pairs: Pairs | None = None
) -> None:
    """Refuse an export that computes something else than the model's own `forward`, in float32.

    `their_log_p` loads what was written and returns the same as `Pairs.log_p`. Pairs are random.
    """
    pairs = random_pairs(model) if pairs is None else pairs
    if isinstance(model, EncoderDecoder):
        logits = model(pairs.source, pairs.previous)
    else:
        logits = model.project(model(pairs.previous).features)
    try:
        difference = float((their_log_p(pairs) - pairs.log_p(logits)).abs().max())
    except RuntimeError as error:  # PyTorch's, where weights don't fit
        raise UserError(f"{program} can't take this model: {error}") from error
    if not difference <= TOLERANCE:  # NaN
        raise UserError(
            f"{program} would compute another model: log P of a token differs by {difference:.2g} "
            f"(at most {TOLERANCE:g}). What was changed in vaswani_plugin/modules has to change in "
            "vaswani_plugin/export, too; --to onnx writes the modules as they are"
        )


# ---- fairseq's names of weights, which Hugging Face took over

_FAIRSEQ_PARTS = {
    "embedding": "embed_tokens",
    "positions": "embed_positions",
    "projection": "output_projection",
    "norm": "layer_norm",
    "self_attention_norm.norm": "self_attn_layer_norm",
    "cross_attention_norm.norm": "encoder_attn_layer_norm",
    "feed_forward_norm.norm": "final_layer_norm",
    "feed_forward.w_1": "fc1",
    "feed_forward.w_2": "fc2",
    **{
        f"{ours}_attention.{part}": f"{theirs}_attn.{name}_proj"
        for ours, theirs in (("self", "self"), ("cross", "encoder"))
        for part, name in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "out"))
    },
}
"""Parts of a side or layer: our names, and fairseq's. Each weight of one model is one of the other,
bit for bit, but for learned positions."""
_WEIGHT = re.compile(r"^((?:encoder|decoder)\.(?:layers\.\d+\.)?)(.+)\.(weight|bias)$")


def to_fairseq_weights(weights: Mapping[str, Tensor]) -> Weights:
    """The same tensors under fairseq's names.

    Learned positions (P, D) become (2 + P, D): fairseq's table begins with two unread rows.
    """
    named = _renamed(weights, _FAIRSEQ_PARTS)
    for name in (f"{side}.embed_positions.weight" for side in SIDES):
        if name in named:
            unread = named[name].new_zeros(FAIRSEQ_FIRST_POSITION, named[name].size(1))
            named[name] = torch.cat((unread, named[name]))
    return named


def from_fairseq_weights(weights: Mapping[str, Tensor]) -> Weights:
    """The inverse of `to_fairseq_weights`."""
    named = _renamed(weights, {theirs: ours for ours, theirs in _FAIRSEQ_PARTS.items()})
    for name in (f"{side}.positions.weight" for side in SIDES):
        if name in named:
            named[name] = named[name][FAIRSEQ_FIRST_POSITION:].clone()
    return named


def _renamed(weights: Mapping[str, Tensor], parts: Mapping[str, str]) -> Weights:
    """Names without a counterpart stay: the other model's loader names them."""
    return {
        _WEIGHT.sub(lambda name: f"{name[1]}{parts.get(name[2], name[2])}.{name[3]}", name): tensor
        for name, tensor in weights.items()
    }


def copy_bundle_files(folder: Path, settings: Settings, output: Path) -> None:
    """Copy the files of a bundle beside the weights, its model card included if it has one."""
    cards = [CARD] if (folder / CARD).is_file() else []
    for name in (*settings.files(), SETTINGS, *cards):
        if name != MODEL:
            shutil.copyfile(folder / name, output / name)


@contextlib.contextmanager
def new_folder(output: Path) -> Iterator[Path]:
    """Context with a temporary folder that becomes `output` at the end and goes after an error.

    Refuses what is no new or empty folder, and the current one, which a shell would not find again.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir()) or output.samefile(".")):
        raise UserError(
            f"--output {output}: in use, or the current one: give the name of a new one"
        )
    output = output.resolve()  # of a symbolic link, its target
    there = next(parent for parent in output.parents if parent.exists())
    with TemporaryDirectory(prefix=f".{output.name}.", dir=there) as parent:
        folder = Path(parent, "new")
        folder.mkdir()
        yield folder
        output.parent.mkdir(parents=True, exist_ok=True)
        os.replace(folder, output)
