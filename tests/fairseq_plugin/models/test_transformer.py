"""The whole model equals the NumPy reference, and what must not matter doesn't (section 3)."""

import numpy as np
import paper_reference
import pytest
import torch
from model_factory import make_model, make_task, random_batch
from reference_weights import default_dtype, layer_weights_of, numbers, shake

EXACT = {"atol": 1e-10, "rtol": 0}
LENGTHS = [(9, 7), (4, 11), (12, 2), (2, 5)]


def exact_model(task, **changes):
    with default_dtype(torch.float64):
        return shake(make_model(task, **changes), size=0.1).eval()


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.fixture(scope="module")
def model(task):
    return exact_model(task)


@pytest.mark.parametrize("positions", ["sinusoidal", "sinusoidal-fairseq"])
@pytest.mark.parametrize("sizes", [{}, {"heads": 3, "d_k": 5, "d_v": 9}])
def test_logits_are_the_references(task, positions, sizes):
    model = exact_model(task, positions=positions, **sizes)
    encodings = {
        "sinusoidal": paper_reference.sinusoid,
        "sinusoidal-fairseq": paper_reference.fairseq_sinusoid,
    }
    source, target = [7, 20, 9, 9, 4, 2], [2, 11, 5, 26, 8]
    expected = paper_reference.transformer(
        source,
        target,
        [layer_weights_of(layer) for layer in model.encoder.layers],
        [layer_weights_of(layer) for layer in model.decoder.layers],
        numbers(model.projection_weight),
        eps=1e-6,
        encoding=encodings[positions],
    )
    logits = model(torch.tensor([source]), torch.tensor([6]), torch.tensor([target]))[0]
    assert expected.std() > 0.1
    np.testing.assert_allclose(numbers(logits[0]), expected, **EXACT)


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize("left_pad_source", [False, True])
@pytest.mark.parametrize("left_pad_target", [False, True])
def test_padded_in_a_batch_is_alone(task, window, left_pad_source, left_pad_target):
    model = exact_model(task, attention_window=window)
    batch = random_batch(task, LENGTHS, left_pad=left_pad_source)
    targets = batch["prev_output_tokens"]
    if left_pad_target:
        targets = torch.stack(
            [
                row.roll(targets.size(1) - pair[1])
                for row, pair in zip(targets, LENGTHS, strict=True)
            ]
        )
    together = model(batch["src_tokens"], batch["src_lengths"], targets)[0]
    pad = task.source_dictionary.pad()
    for row, (source_length, target_length) in enumerate(LENGTHS):
        source, target = batch["src_tokens"][row], targets[row]
        real = target.ne(pad)
        alone = model(source[source.ne(pad)][None], None, target[real][None])[0]
        assert alone.shape[:2] == (1, target_length) and source.ne(pad).sum() == source_length
        torch.testing.assert_close(together[row][real], alone[0], **EXACT)
    assert together.isfinite().all()


def test_padding_does_not_reach_the_gradients(task, model):
    batch = random_batch(task, LENGTHS[:2])
    pad = task.source_dictionary.pad()
    real = batch["prev_output_tokens"].ne(pad)
    parameters = list(model.parameters())

    def gradients(batch, chosen):
        logits = model(**batch)[0].log_softmax(-1)
        return torch.autograd.grad(logits[chosen].square().sum(), parameters)

    together = gradients(batch, real)
    apart = [torch.zeros_like(p) for p in parameters]
    for row in range(2):
        source, target = batch["src_tokens"][row], batch["prev_output_tokens"][row]
        alone = {
            "src_tokens": source[source.ne(pad)][None],
            "src_lengths": None,
            "prev_output_tokens": target[target.ne(pad)][None],
        }
        for total, part in zip(apart, gradients(alone, slice(None)), strict=True):
            total += part
    for ours, summed in zip(together, apart, strict=True):
        torch.testing.assert_close(ours, summed, atol=1e-8, rtol=1e-8)


def test_future_tokens_are_inert(task, model):
    batch = random_batch(task, [(6, 9)])
    before = model(**batch)[0]
    changed = batch["prev_output_tokens"].clone()
    changed[0, 5:] = torch.tensor([4, 9, 14, 20])
    assert (changed[0, 5:] != batch["prev_output_tokens"][0, 5:]).all()
    after = model(batch["src_tokens"], batch["src_lengths"], changed)[0]
    assert after[0, :5].equal(before[0, :5])
    assert ((after - before)[0, 5:].abs().amax(-1) > 1e-3).all()


def test_batch_order_is_inert(task, model):
    batch = random_batch(task, LENGTHS)
    order = torch.tensor([2, 0, 3, 1])
    shuffled = model(**{name: tensor[order] for name, tensor in batch.items()})[0]
    torch.testing.assert_close(shuffled, model(**batch)[0][order], **EXACT)


@pytest.mark.parametrize("window", [24, 100])
def test_a_window_wider_than_everything_changes_nothing(task, model, window):
    """A neighbourhood reaches r//2 to each side: 24 covers 12 source tokens from every place."""
    windowed = exact_model(task, attention_window=window)
    batch = random_batch(task, LENGTHS)
    torch.testing.assert_close(windowed(**batch)[0], model(**batch)[0], **EXACT)


@pytest.mark.parametrize("window", [1, 2, 3, 4])
def test_a_window_restricts(task, window):
    """In one layer, only tokens of the neighbourhood reach a position."""
    model = exact_model(task, attention_window=window, encoder_layers=1, decoder_layers=1)
    tokens = torch.arange(4, 14)[None]
    changed_at = 4
    changed = tokens.clone()
    changed[0, changed_at] = 26

    def reached(before, after):
        difference = (after - before).abs().amax(-1).flatten()
        assert ((difference == 0) | (difference > 1e-4)).all()
        return difference.nonzero().flatten().tolist()

    encoded = [model.encoder(source)["encoder_out"][0] for source in (tokens, changed)]
    sees = [i for i in range(10) if i - window // 2 <= changed_at <= i + (window - 1) // 2]
    assert reached(*encoded) == sees
    memory = model.encoder(tokens)
    decoded = [model.decoder(target, memory)[0] for target in (tokens, changed)]
    assert reached(*decoded) == [i for i in range(10) if changed_at <= i < changed_at + window]


def test_dropout_is_where_the_paper_has_it(task):
    """Evaluation is deterministic; training drops embeddings + positions and sub-layers."""
    model = make_model(task, dropout=0.3)
    batch = random_batch(task, LENGTHS[:1])
    assert model(**batch)[0].equal(model(**batch)[0])
    model.train()
    assert not model(**batch)[0].equal(model(**batch)[0])
    only_embeddings = make_model(task, dropout=0.999999)
    seen = []
    first = only_embeddings.encoder.layers[0]
    first.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    only_embeddings.train()(**batch)
    assert (seen[0] == 0).all()
