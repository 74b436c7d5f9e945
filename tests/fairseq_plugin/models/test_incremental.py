"""Incremental decoding equals the full forward pass, position by position."""

import itertools

import pytest
import torch
from beams import EXACT, exact_model, make_parser, words_and_symbols
from model_factory import make_task, random_batch

LENGTHS = [(9, 10), (4, 10), (12, 10)]


@pytest.fixture(scope="module")
def task():
    return make_task()


@pytest.fixture(params=[0, 3], ids=lambda r: f"window-{r}")
def model(request, task):
    return exact_model(task, attention_window=request.param)


@pytest.mark.parametrize("pieces", [[1] * 10, [1, 3, 1, 5]], ids=str)
@pytest.mark.parametrize("left_pad", [False, True])
def test_incremental_is_full(task, model, pieces, left_pad):
    batch = random_batch(task, LENGTHS)
    targets = batch["prev_output_tokens"]
    if left_pad:
        targets = targets.clone()
        targets[1] = targets[1].roll(4)
        targets[1, :4] = task.source_dictionary.pad()
    encoder_out = model.encoder(batch["src_tokens"])
    full = model.decoder(targets, encoder_out)[0]
    real = targets.ne(task.source_dictionary.pad())
    state, begin = {}, 0
    for end in itertools.accumulate(pieces):
        piece, extra = model.decoder(targets[:, :end], encoder_out, incremental_state=state)
        assert piece.shape[1] == end - begin
        there = real[:, begin:end]
        torch.testing.assert_close(piece[there], full[:, begin:end][there], **EXACT)
        assert extra["attn"][0].shape == (3, end - begin, batch["src_tokens"].size(1))
        begin = end
    assert full[real].std() > 0.1


@pytest.mark.parametrize("order", [[1, 1, 0], [2]], ids=str)
def test_a_reordered_cache_goes_on_as_the_reordered_batch(task, model, order):
    """Beams are copied and dropped, sentences leave the batch: row i becomes order[i]."""
    batch = random_batch(task, LENGTHS)
    targets, picked = batch["prev_output_tokens"], torch.tensor(order)
    encoder_out = model.encoder(batch["src_tokens"])
    state = {}
    model.decoder(targets[:, :4], encoder_out, incremental_state=state)
    model.decoder.reorder_incremental_state_scripting(state, picked)
    reordered = model.encoder.reorder_encoder_out(encoder_out, picked)
    step, _ = model.decoder(targets[picked][:, :5], reordered, incremental_state=state)
    alone = model.encoder(batch["src_tokens"][picked])
    expected = model.decoder(targets[picked][:, :5], alone)[0][:, -1:]
    torch.testing.assert_close(step, expected, **EXACT)


@pytest.fixture(scope="module")
def parser():
    return make_parser()


@pytest.mark.parametrize("pieces", [[1] * 10, [4, 6]], ids=str)
def test_a_parser_knows_the_next_word_incrementally(parser, pieces):
    batch = words_and_symbols(parser, LENGTHS)
    encoder_out = parser.encoder(batch["src_tokens"])
    full = parser.decoder(batch["prev_output_tokens"], encoder_out)[0]
    state, begin = {}, 0
    for end in itertools.accumulate(pieces):
        tokens = batch["prev_output_tokens"][:, :end]
        piece, _ = parser.decoder(tokens, encoder_out, incremental_state=state)
        torch.testing.assert_close(piece, full[:, begin:end], **EXACT)
        begin = end


def test_the_next_word_is_one_more_after_each_placeholder(parser):
    """What a prefix's bracket becomes changes nothing but itself; a placeholder moves all."""
    batch = words_and_symbols(parser, [(12, 6)])
    encoder_out = parser.encoder(batch["src_tokens"])
    tag, other_tag = (parser.decoder.dictionary.index(tag) for tag in ("DT", "NN"))
    bracket = parser.decoder.dictionary.index("(NP")
    seen = []
    hook = parser.decoder.next_word.register_forward_hook(
        lambda module, inputs, output: seen.append(inputs[1])
    )
    for symbol in (tag, other_tag, bracket):
        tokens = torch.tensor([[2, bracket, symbol, tag, bracket, tag]])
        parser.decoder(tokens, encoder_out)
    hook.remove()
    assert [written.tolist() for written in seen] == [[[0, 0, 1, 2, 2, 3]]] * 2 + [
        [[0, 0, 0, 1, 1, 2]]
    ]
