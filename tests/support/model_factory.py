"""Small models for tests: ours, and fairseq's stock Transformer with the same weights."""

import argparse
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel, base_architecture
from omegaconf import OmegaConf

from vaswani_plugin.architectures import VaswaniTransformerConfig
from vaswani_plugin.models.transformer import VaswaniTransformer

SIZES = {
    "d_model": 32,
    "d_ff": 48,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "heads": 4,
    "dropout": 0.0,
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
    cfg = OmegaConf.structured(VaswaniTransformerConfig(**{**SIZES, **changes}))
    return VaswaniTransformer.build_model(cfg, task or make_task()).eval()


def make_stock_twin(model: VaswaniTransformer) -> TransformerModel:
    """fairseq's stock Transformer with the weights of `model`, which must use its sinusoids."""
    args = argparse.Namespace(
        encoder_embed_dim=SIZES["d_model"],
        encoder_ffn_embed_dim=SIZES["d_ff"],
        encoder_layers=SIZES["encoder_layers"],
        decoder_layers=SIZES["decoder_layers"],
        encoder_attention_heads=SIZES["heads"],
        decoder_attention_heads=SIZES["heads"],
        dropout=0.0,
        share_all_embeddings=True,
        max_source_positions=SIZES["max_source_positions"],
        max_target_positions=SIZES["max_target_positions"],
    )
    base_architecture(args)
    task = SimpleNamespace(
        source_dictionary=model.encoder.dictionary, target_dictionary=model.decoder.dictionary
    )
    stock = TransformerModel.build_model(args, task)
    names = {
        "self_attention_norm": "self_attn_layer_norm",
        "cross_attention_norm": "encoder_attn_layer_norm",
        "feed_forward_norm": "final_layer_norm",
        "self_attention": "self_attn",
        "cross_attention": "encoder_attn",
        "query": "q_proj",
        "key": "k_proj",
        "value": "v_proj",
        "output": "out_proj",
        "feed_forward.w_1": "fc1",
        "feed_forward.w_2": "fc2",
    }
    state = stock.state_dict()
    filled = {name for name in state if name.endswith(("version", "_float_tensor"))}
    for name, tensor in model.state_dict().items():
        if "embedding" in name or "projection" in name:
            continue
        for ours, theirs in names.items():
            name = name.replace(f".{ours}.", f".{theirs}.")
        if name.count("norm"):
            name = name.replace(".norm.", ".")
        assert state[name].shape == tensor.shape, name
        state[name] = tensor
        filled.add(name)
    for name in (
        "encoder.embed_tokens.weight",
        "decoder.embed_tokens.weight",
        "decoder.output_projection.weight",
    ):
        state[name] = model.encoder.embedding.weight
        filled.add(name)
    assert filled == set(state), set(state) - filled
    stock.load_state_dict(state)
    return stock.eval()


def random_batch(
    task: SimpleNamespace, lengths: list[tuple[int, int]], seed: int = 3, left_pad: bool = True
) -> dict[str, torch.Tensor]:
    """fairseq's net_input for sentences of (source, target) lengths, end of sentence included."""
    generator = torch.Generator().manual_seed(seed)
    dictionary = task.source_dictionary
    pad, eos, first = dictionary.pad(), dictionary.eos(), dictionary.nspecial
    longest = [max(pair[side] for pair in lengths) for side in (0, 1)]
    sides = []
    for side in (0, 1):
        rows = torch.full((len(lengths), longest[side]), pad)
        for row, pair in zip(rows, lengths, strict=True):
            words = torch.randint(first, len(dictionary), (pair[side] - 1,), generator=generator)
            end = torch.tensor([eos])
            sentence = torch.cat((words, end) if side == 0 else (end, words))
            if side == 0 and left_pad:
                row[longest[side] - pair[side] :] = sentence
            else:
                row[: pair[side]] = sentence
        sides.append(rows)
    return {
        "src_tokens": sides[0],
        "src_lengths": torch.tensor([pair[0] for pair in lengths]),
        "prev_output_tokens": sides[1],
    }
