"""Small models for tests: ours, and fairseq's stock Transformer with the same weights."""

import argparse
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel
from omegaconf import OmegaConf
from torch.nn.utils.rnn import pad_sequence

from vaswani_plugin.export.stock_fairseq import stock_model
from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer
from vaswani_plugin.modules.parser import ParserDecoder
from vaswani_plugin.modules.transformer import Decoder, Encoder, EncoderDecoder

SIZES = {
    "d_model": 32,
    "d_ff": 48,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "heads": 4,
    "dropout": 0.0,
    "initial_weights": "own",  # at this width those of the default hardly look at their inputs
    "max_source_positions": 64,
    "max_target_positions": 64,
}


def make_dictionary(symbols: int, prefix: str = "w") -> Dictionary:
    """`symbols` words besides fairseq's four special ones."""
    dictionary = Dictionary()
    for number in range(symbols):
        dictionary.add_symbol(f"{prefix}{number}")
    return dictionary


def make_task(symbols: int = 23) -> SimpleNamespace:
    """What a model needs of a task: its dictionaries, joined."""
    dictionary = make_dictionary(symbols)
    return SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)


def make_model(task: SimpleNamespace | None = None, seed: int = 1, **changes) -> VaswaniTransformer:
    """A small model of ours in evaluation mode."""
    torch.manual_seed(seed)
    cfg = OmegaConf.structured(VaswaniTransformer.Config(**{**SIZES, **changes}))
    return VaswaniTransformer.build_model(cfg, task or make_task()).eval()


def plain_transformer(model: VaswaniTransformer) -> EncoderDecoder:
    """The same model of `modules` alone, its weights shared."""
    e, d = model.encoder, model.decoder
    encoder = Encoder(e.embedding, e.positions, list(e.layers), e.dropout, e.window, e.norm)
    parts = d.embedding, d.positions, list(d.layers), d.dropout, d.window, d.norm
    if hasattr(d, "next_word"):
        decoder = ParserDecoder(*parts, d.projection, next_word=d.next_word)
    else:
        decoder = Decoder(*parts, d.projection)
    return EncoderDecoder(encoder, decoder).eval()


@torch.no_grad()
def attention_weights(
    model: VaswaniTransformer, source: torch.Tensor, target: torch.Tensor
) -> dict[str, list[torch.Tensor]]:
    """The weights of each layer and head, (B, H, T, S), by kind of attention."""
    plain = plain_transformer(model)
    memory = plain.encode(source)
    encoded = plain.encoder(source, need_weights=True)
    decoded = plain.decode(target, memory, need_weights=True)
    layers = encoded.self_weights, decoded.self_weights, decoded.cross_weights
    return dict(zip(("encoder", "decoder", "cross"), layers, strict=True))


def make_stock_twin(model: VaswaniTransformer) -> TransformerModel:
    """fairseq's stock Transformer with the weights of `model`, which must use its sinusoids."""
    twin = {"positions": "sinusoidal-fairseq", "layer_norm_eps": 1e-5}
    weights, options = stock_model(model.state_dict(), VaswaniTransformer.Config(**SIZES, **twin))
    task = SimpleNamespace(
        source_dictionary=model.encoder.dictionary, target_dictionary=model.decoder.dictionary
    )
    stock = TransformerModel.build_model(argparse.Namespace(**options), task)
    stock.load_state_dict(weights)
    return stock.eval()


def random_batch(
    task: SimpleNamespace, lengths: list[tuple[int, int]], seed: int = 3, left_pad: bool = True
) -> dict[str, torch.Tensor]:
    """fairseq's net_input for sentences of (source, target) lengths, end of sentence included."""
    generator = torch.Generator().manual_seed(seed)
    dictionary, end = task.source_dictionary, torch.tensor([task.source_dictionary.eos()])

    def words(count: int) -> torch.Tensor:
        return torch.randint(dictionary.nspecial, len(dictionary), (count,), generator=generator)

    def padded(rows: list[torch.Tensor], side: str) -> torch.Tensor:
        return pad_sequence(rows, True, dictionary.pad(), side)

    sources = [torch.cat((words(source - 1), end)) for source, _ in lengths]
    targets = [torch.cat((end, words(target - 1))) for _, target in lengths]
    return {
        "src_tokens": padded(sources, "left" if left_pad else "right"),
        "src_lengths": torch.tensor([source for source, _ in lengths]),
        "prev_output_tokens": padded(targets, "right"),
    }
