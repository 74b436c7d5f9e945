"""onnxruntime computes by the graphs of our export what our model computes, at any sizes."""

import json

import numpy as np
import pytest
import torch
from toy_bundle import POSITIONS, write_toy_bundle

from vaswani_plugin.errors import UserError
from vaswani_plugin.export.onnx_export import export_to_onnx
from vaswani_plugin.inference.bundle import Bundle

pytest.importorskip("onnx", reason="NOT TESTED: no onnx here: pip install '.[onnx]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="NOT TESTED: no onnxruntime here")

GRAPHS = ("encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx")
ROWS = {
    "base": (),
    "heads": ("--d-k", "4", "--d-v", "6", "--encoder-layers", "1"),
    "learned": ("--positions", "learned", "--norm", "pre"),
    "fairseq's": ("--positions", "sinusoidal-fairseq", "--attention-scale", "none"),
}
PAIRS = 60
PAD, EOS, FIRST = 1, 2, 4


@pytest.fixture(scope="module", params=ROWS)
def exported(request, tmp_path_factory):
    """Our model in plain modules, and the sessions of its three graphs."""
    folder = tmp_path_factory.mktemp("onnx")
    share = "all" if request.param == "base" else "none"
    flags = ("--arch", "vaswani_debug", *ROWS[request.param])
    bundle = write_toy_bundle(folder, model=flags, share=share)
    assert export_to_onnx(bundle, folder / "onnx") == bundle / "model.pt"
    return Bundle.load(bundle).load_model().model, sessions(folder / "onnx")


def sessions(folder):
    """The graphs in onnxruntime, without any code of ours."""
    return [onnxruntime.InferenceSession(folder / name) for name in GRAPHS]


def run(session, **inputs):
    """All outputs by name."""
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def encoded(encoder, source):
    """The decoder's inputs of these sources."""
    mask = (source != PAD).astype(np.int64)
    memory = run(encoder, input_ids=source, attention_mask=mask)["last_hidden_state"]
    return {"encoder_attention_mask": mask, "encoder_hidden_states": memory}


def pairs(seed, vocabulary):
    """Four random pairs, of any lengths, the sources padded on either side, as arrays."""
    random = np.random.default_rng(seed)
    source_length, target_length = random.integers(3, POSITIONS, 2)
    source = random.integers(FIRST, vocabulary, (4, source_length))
    target = random.integers(FIRST, vocabulary, (4, target_length))
    source[:, -1], target[:, 0] = EOS, EOS
    source[1, : source_length // 2] = PAD
    source[2, source_length // 2 :] = PAD
    target[3, target_length // 2 + 1 :] = PAD
    return source, target


def expected_logits(model, source, target):
    """By the decoder's own forward, over the whole target."""
    source, target = torch.from_numpy(source), torch.from_numpy(target)
    with torch.no_grad():
        memory, mask = model.encoder(source).features, source.ne(PAD)[:, None, None]
        return model.decoder.project(model.decoder(target, memory, mask).features).numpy()


def test_the_logits_of_random_pairs(exported):
    model, (encoder, decoder, _) = exported
    vocabulary = model.decoder.projection.weight.size(0)
    for seed in range(PAIRS // 4):
        source, target = pairs(seed, vocabulary)
        found = run(decoder, input_ids=target, **encoded(encoder, source))["logits"]
        expected = expected_logits(model, source, target)
        assert expected.std() > 1
        words = target != PAD  # at padding the logits mean nothing
        np.testing.assert_allclose(found[words], expected[words], atol=1e-4, rtol=0)


def test_the_mask_alone_says_what_is_padding(exported):
    """Whatever token is there: other programs pad with other numbers."""
    model, (encoder, _, _) = exported
    source, _ = pairs(5, model.decoder.projection.weight.size(0))
    mask = (source != PAD).astype(np.int64)
    others = np.where(mask, source, FIRST)
    first, second = (
        run(encoder, input_ids=ids, attention_mask=mask)["last_hidden_state"]
        for ids in (source, others)
    )
    assert (first == second)[mask.astype(bool)].all()


@pytest.mark.parametrize("sizes", [[1] * 9, [4, 1, 4]], ids=str)
def test_with_past_any_parts_give_the_whole(exported, sizes):
    model, (encoder, decoder, with_past) = exported
    source, target = pairs(3, model.decoder.projection.weight.size(0))
    target = np.tile(target, (1, 9))[:, : sum(sizes)]
    target[target == PAD] = FIRST
    expected = expected_logits(model, source, target)
    inputs = encoded(encoder, source)
    first, *rest = np.split(target, np.cumsum(sizes)[:-1], axis=1)
    found = run(decoder, input_ids=first, **inputs)
    parts, past = [found["logits"]], {"encoder_attention_mask": inputs["encoder_attention_mask"]}
    for part in rest:
        past |= {
            name.replace("present", "past_key_values"): array
            for name, array in found.items()
            if name.startswith("present")
        }
        found = run(with_past, input_ids=part, **past)
        parts.append(found["logits"])
    np.testing.assert_allclose(np.concatenate(parts, axis=1), expected, atol=1e-4, rtol=0)


def test_the_folder_has_hugging_faces_configuration(tmp_path):
    bundle = write_toy_bundle(tmp_path)
    (bundle / "README.md").write_text("the card", encoding="utf-8")
    export_to_onnx(bundle, tmp_path / "onnx")
    names = {path.name for path in bundle.iterdir()} - {"model.pt", "model.safetensors"}
    added = {"config.json", "generation_config.json"}
    assert {path.name for path in (tmp_path / "onnx").iterdir()} == names | added | {*GRAPHS}
    config = json.loads((tmp_path / "onnx" / "config.json").read_text())
    assert config["model_type"] == "marian" and config["d_model"] == 32
    assert config["vaswani"]["max_target_positions"] == POSITIONS
    generation = json.loads((tmp_path / "onnx" / "generation_config.json").read_text())
    assert generation["num_beams"] == 2 and generation["decoder_start_token_id"] == EOS


def test_int8_is_smaller_and_close(tmp_path):
    size = ("--arch", "vaswani_debug", "--d-model", "128", "--d-ff", "512")
    bundle = write_toy_bundle(tmp_path, model=size)
    export_to_onnx(bundle, tmp_path / "float32")
    export_to_onnx(bundle, tmp_path / "int8", "int8")
    for name in GRAPHS:
        sizes = [(tmp_path / kind / name).stat().st_size for kind in ("int8", "float32")]
        assert sizes[0] < 0.5 * sizes[1], name
    model = Bundle.load(bundle).load_model().model
    encoder, decoder, _ = sessions(tmp_path / "int8")
    source, target = pairs(2, model.decoder.projection.weight.size(0))
    found = run(decoder, input_ids=target, **encoded(encoder, source))["logits"]
    expected = expected_logits(model, source, target)
    assert 0 < np.abs(found - expected).mean() < 0.1 * expected.std()


def test_what_the_graphs_lack_is_refused(tmp_path):
    flags = ("--arch", "vaswani_debug", "--attention-window", "3")
    bundle = write_toy_bundle(tmp_path, model=flags)
    with pytest.raises(UserError, match="no counterpart of --attention-window 3"):
        export_to_onnx(bundle, tmp_path / "out")
    with pytest.raises(UserError, match="no --quantization bfloat16: give int8"):
        export_to_onnx(bundle, tmp_path / "out", "bfloat16")
