"""fairseq's own Transformer and ours: equal outputs when converted, equal bits when twice."""

import argparse
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.models.transformer import TransformerModel, base_architecture
from model_factory import SIZES, make_model, make_task, random_batch
from reference_weights import shake

from vaswani_plugin.export import stock_fairseq as conversion
from vaswani_plugin.fairseq_plugin.models.transformer import VaswaniTransformer

LENGTHS = [(9, 7), (4, 11), (12, 2), (2, 5)]
SHARING = {
    "all": {"share_all_embeddings": True},
    "decoder": {"share_decoder_input_output_embed": True},
    "none": {},
}
PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
SMALL = {"encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24, "dropout": 0.0}
SMALL |= {"encoder_layers": 2, "decoder_layers": 3}
SMALL |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
SMALL |= {"max_source_positions": 40, "max_target_positions": 30}


def stock_flags(**changes: Any) -> argparse.Namespace:
    """The options of a small stock Transformer; `changes` are fairseq's own names."""
    flags = argparse.Namespace(arch="transformer", _name="transformer", **{**SMALL, **changes})
    base_architecture(flags)
    return flags


def make_stock(task: SimpleNamespace, seed: int = 5, **changes: Any) -> TransformerModel:
    """A small stock Transformer in evaluation mode in which every weight counts."""
    torch.manual_seed(seed)
    return shake(TransformerModel.build_model(stock_flags(**changes), task)).eval()


def as_checkpoint(model: TransformerModel, **changes: Any) -> dict[str, Any]:
    """What fairseq-train saves of a model that `make_stock` made with these changes."""
    task = {"_name": "translation", "source_lang": "en", "target_lang": "de"}
    return {
        "args": None,
        "cfg": {"model": stock_flags(**changes), "task": task},
        "model": model.state_dict(),
        "optimizer_history": [{"num_updates": 7}],
    }


def as_old_checkpoint(model: TransformerModel, **changes: Any) -> dict[str, Any]:
    """The same as a fairseq of 2018 saved it: joint projections, numbered norms, flat flags."""
    state = dict(model.state_dict())
    for side, norms in (
        ("encoder", ["self_attn_layer_norm", "final_layer_norm"]),
        ("decoder", ["self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"]),
    ):
        del state[f"{side}.version"]
        state[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
        layers = {name.split(".")[2] for name in state if name.startswith(f"{side}.layers.")}
        for layer in (f"{side}.layers.{number}" for number in layers):
            for n, norm in enumerate(norms):
                for part in ("weight", "bias"):
                    state[f"{layer}.layer_norms.{n}.{part}"] = state.pop(f"{layer}.{norm}.{part}")
            attentions = ["self_attn"] if side == "encoder" else ["self_attn", "encoder_attn"]
            for attention in (f"{layer}.{name}" for name in attentions):
                for part in ("weight", "bias"):
                    names = [f"{attention}.{x}_proj.{part}" for x in "qkv"]
                    joint = torch.cat([state.pop(name) for name in names])
                    state[f"{attention}.in_proj_{part}"] = joint
    flags = vars(stock_flags(**changes))
    projection = state.pop("decoder.output_projection.weight")
    if not flags["share_decoder_input_output_embed"] and not flags["share_all_embeddings"]:
        state["decoder.embed_out"] = projection
    old = {
        name: flags[name]
        for name in (*SMALL, "arch", "share_all_embeddings", "share_decoder_input_output_embed")
        if name not in ("max_source_positions", "max_target_positions")
    }
    old |= {"max_positions": 40, "source_lang": "en", "target_lang": "de", "relu_dropout": 0.25}
    return {"args": argparse.Namespace(**old), "model": state, "optimizer_history": [{}]}


def convert(state: dict, task: SimpleNamespace) -> tuple[dict, dict]:
    """Weights and configuration of ours."""
    options = conversion.stock_options(state)
    config = conversion.our_config(options)
    dictionaries = task.source_dictionary, task.target_dictionary
    return conversion.import_weights(state, options, *dictionaries), config


def imported(state: dict, task: SimpleNamespace) -> VaswaniTransformer:
    weights, config = convert(state, task)
    model = VaswaniTransformer.build_model(VaswaniTransformer.Config(**config), task).eval()
    model.load_state_dict(weights)
    return model


def difference(ours: torch.nn.Module, theirs: torch.nn.Module, task: SimpleNamespace) -> float:
    """The greatest difference of logits at real positions."""
    batch = random_batch(task, LENGTHS)
    real = batch["prev_output_tokens"].ne(task.source_dictionary.pad())
    with torch.no_grad():
        ours, theirs = ours(**batch)[0][real], theirs(**batch)[0][real]
    assert theirs.std() > 0.1
    return float((ours - theirs).abs().max())


@pytest.mark.parametrize("sharing", SHARING)
@pytest.mark.parametrize("learned", [False, True])
def test_imported_model_gives_fairseqs_outputs(learned, sharing):
    changes = SHARING[sharing] | {"encoder_learned_pos": learned, "decoder_learned_pos": learned}
    changes |= PRE_NORM if sharing == "all" else {}
    task = make_task()
    stock = make_stock(task, **changes)
    assert difference(imported(as_checkpoint(stock, **changes), task), stock, task) < 1e-5


def test_imported_old_model_gives_fairseqs_outputs():
    task = make_task()
    stock = make_stock(task, **SHARING["none"])
    state = as_old_checkpoint(stock, **SHARING["none"])
    assert difference(imported(state, task), stock, task) < 1e-5
    with pytest.raises(ValueError, match="embeds 27 words and the dictionary of --data-bin has 31"):
        convert(state, make_task(27))
    with pytest.raises(ValueError, match="its encoder_layers are 10000, and it has"):
        convert(as_checkpoint(stock, encoder_layers=10_000), task)
    config = conversion.our_config(conversion.stock_options(state))
    assert (config["max_source_positions"], config["max_target_positions"]) == (40, 40)
    assert config["activation_dropout"] == 0.25
    assert conversion.stock_task(state) == {"source_lang": "en", "target_lang": "de"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"encoder_normalize_before": True}, ["--encoder-normalize-before True"]),
        ({"encoder_learned_pos": True}, ["--decoder-learned-pos False"]),
        (PRE_NORM | {"no_decoder_final_norm": True}, ["--no-decoder-final-norm True"]),
        ({"decoder_output_dim": 8}, ["--decoder-output-dim 8"]),
        ({"activation_fn": "gelu", "scale_fc": True}, ["--activation-fn gelu", "--scale-fc"]),
    ],
)
def test_what_ours_lacks_is_refused_by_name(changes, words):
    state = as_checkpoint(make_stock(make_task()), **changes)
    with pytest.raises(ValueError, match="vaswani_transformer has no counterpart of") as error:
        conversion.our_config(conversion.stock_options(state))
    assert all(word in str(error.value) for word in words), error.value


def test_what_changes_no_output_is_accepted():
    task = make_task()
    changes = {"encoder_embed_path": "gone.txt", "min_params_to_wrap": 3, "export": True}
    changes |= {"checkpoint_activations": True, "no_decoder_final_norm": True}
    stock = make_stock(task)
    assert difference(imported(as_checkpoint(stock, **changes), task), stock, task) < 1e-5


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"model": {"_name": "vaswani_base"}}, "holds vaswani_base; import takes"),
        ({"model": {"_name": "transformer"}, "task": {"_name": "denoising"}}, "--task denoising"),
    ],
)
def test_other_models_and_tasks_are_named(sections, message):
    with pytest.raises(ValueError, match=message):
        conversion.stock_options({"cfg": sections})
        conversion.stock_task({"cfg": sections})


def ours_with(task: SimpleNamespace, **changes) -> tuple[VaswaniTransformer, dict]:
    """A model of ours that fairseq can express, and its checkpoint."""
    changes = {"layer_norm_eps": 1e-5, "dropout": 0.4, **changes}
    model = shake(make_model(task, **changes))
    section = {"_name": "vaswani_debug", **SIZES, **changes, "d_k": None, "d_v": None}
    del section["initial_weights"]  # of which a stock checkpoint says nothing
    return model, {"cfg": {"model": section}, "model": model.state_dict()}


def exported(state: dict, **options) -> dict:
    weights, flags = conversion.stock_model(state["model"], conversion.our_model(state), **options)
    model = {"_name": "transformer", **flags}
    return conversion.checkpoint_of(weights, model, {"_name": "translation"}, 3)


def loaded_by_fairseq(state: dict, task: SimpleNamespace) -> TransformerModel:
    stock = TransformerModel.build_model(argparse.Namespace(**state["cfg"]["model"]), task).eval()
    stock.load_state_dict(state["model"])  # strict
    return stock


@pytest.mark.parametrize("sharing", SHARING)
@pytest.mark.parametrize("positions", ["sinusoidal", "sinusoidal-fairseq", "learned"])
def test_export_gives_the_same_outputs_and_import_the_same_bits(positions, sharing):
    task = make_task()
    changes = {"norm": "pre"} if sharing == "all" else {}
    model, state = ours_with(task, positions=positions, share_embeddings=sharing, **changes)
    assert difference(model, loaded_by_fairseq(exported(state), task), task) < 3e-5
    # The type of the weights is kept.
    state["model"] = {name: tensor.bfloat16() for name, tensor in state["model"].items()}
    weights, config = convert(exported(state), task)
    assert all(torch.equal(weights[name], weight) for name, weight in state["model"].items())
    tables = {(f"{side}.positions.weight", torch.float32) for side in ("encoder", "decoder")}
    precise = {(name, w.dtype) for name, w in weights.items() if w.dtype != torch.bfloat16}
    assert precise == (tables if positions == "sinusoidal" else set())  # a sum needs them whole
    # The paper's sinusoids have become a table.
    expected = state["cfg"]["model"] | {"positions": config["positions"]}
    assert {"_name": "vaswani_debug", **config}.items() >= expected.items()
    assert config["positions"] == ("learned" if positions == "sinusoidal" else positions)


def test_another_epsilon_is_refused_or_accepted():
    task = make_task()
    model, state = ours_with(task, layer_norm_eps=1e-6)
    other = {"cfg": {"model": state["cfg"]["model"] | {"d_k": 4}}, "model": state["model"]}
    for options, refused in ((state, "--layer-norm-eps 1e-06"), (other, "--d-k 4")):
        with pytest.raises(ValueError, match=f"no counterpart of .*{refused}"):
            exported(options)
    stock = exported(state, allow_layer_norm_eps=True)
    assert 0 < difference(model, loaded_by_fairseq(stock, task), task) < 1e-3


def test_checkpoint_is_plain_data(tmp_path):
    """Stock fairseq allows no class to be unpickled."""
    _, state = ours_with(make_task())
    torch.save(exported(state), tmp_path / "stock.pt")
    added = torch.serialization.get_safe_globals()
    try:
        torch.serialization.clear_safe_globals()
        loaded = torch.load(tmp_path / "stock.pt", weights_only=True)
    finally:
        torch.serialization.add_safe_globals(added)
    assert loaded["cfg"]["model"]["encoder_embed_dim"] == SIZES["d_model"]
    assert loaded["optimizer_history"][-1]["num_updates"] == 3
