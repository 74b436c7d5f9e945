"""Incremental decoding equals the full forward pass, position by position, for every model."""

import functools
import itertools

import pytest
import torch
from beams import EXACT, exact_model, make_parser, words_and_symbols
from language_models import make_language_model, make_lstm_model
from model_factory import make_task, random_batch
from recurrent_models import KINDS, exact_recurrent

LENGTHS = [(9, 10), (4, 10), (12, 10)]
MODELS = {
    "transformer": exact_model,
    "transformer, window": lambda task: exact_model(task, attention_window=3),
    "parser": lambda task: make_parser(),
    "language model": make_language_model,
    "language model, window": lambda task: make_language_model(task, attention_window=3),
} | {kind: lambda task, kind=kind: exact_recurrent(kind, task) for kind in KINDS}
if KINDS:
    MODELS["LSTM language model"] = make_lstm_model


PIECES = [([1] * 10, None), ([4, 1, 2, 3], "left"), ([1] * 10, "right")]
# an LSTM's cache goes on a token at a time, and its state reads padding
PIECES_OF_LSTMS = [([1] * 10, None), ([4, *[1] * 6], None)]
CASES = [
    (name, *pieces)
    for name in MODELS
    for pieces in (PIECES_OF_LSTMS if name in (*KINDS, "LSTM language model") else PIECES)
]


@functools.cache
def make(name: str):
    """A model, targets, and what its decoder gets beside them."""
    task = make_task()
    model = MODELS[name](task)
    batch = words_and_symbols(model, LENGTHS) if name == "parser" else random_batch(task, LENGTHS)
    given = {}
    if hasattr(model, "encoder"):
        given["encoder_out"] = model.encoder(batch["src_tokens"])
    return model, batch["prev_output_tokens"], given


@pytest.mark.parametrize(("name", "pieces", "padding"), CASES, ids=str)
def test_incremental_is_full(name, pieces, padding):
    model, targets, given = make(name)
    targets, pad = targets.clone(), model.decoder.dictionary.pad()
    if padding:
        targets[1] = targets[1].roll(4 if padding == "left" else 0)
        targets[1, slice(None, 4) if padding == "left" else slice(-4, None)] = pad
    full, extra = model.decoder(targets, **given)
    real, alphas = targets.ne(pad), extra["attn"][0]
    state, begin = {}, 0
    for end in itertools.accumulate(pieces):
        piece, extra = model.decoder(targets[:, :end], **given, incremental_state=state)
        assert piece.size(1) == end - begin
        there = real[:, begin:end]
        torch.testing.assert_close(piece[there], full[:, begin:end][there], **EXACT)
        if alphas is not None:
            found = extra["attn"][0]
            torch.testing.assert_close(found[there], alphas[:, begin:end][there], **EXACT)
        begin = end
    assert full[real].std() > 0.1


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("order", [[2, 0, 0], [1]], ids=str)
def test_a_reordered_cache_goes_on_as_the_reordered_batch(name, order):
    """Beams are copied and dropped, sentences leave the batch: row i becomes order[i]."""
    model, targets, given = make(name)
    order, state = torch.tensor(order), {}
    model.decoder(targets[:, :4], **given, incremental_state=state)
    model.decoder.reorder_incremental_state_scripting(state, order)
    if given:
        given = {"encoder_out": model.encoder.reorder_encoder_out(given["encoder_out"], order)}
    targets = targets[order]
    for length in (5, 6):
        step, _ = model.decoder(targets[:, :length], **given, incremental_state=state)
        assert step.size(1) == 1
        expected = model.decoder(targets[:, :length], **given)[0][:, -1:]
        torch.testing.assert_close(step, expected, **EXACT)
