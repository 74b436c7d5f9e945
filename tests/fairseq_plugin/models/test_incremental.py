"""Incremental decoding equals the full forward pass, position by position."""

import itertools

import numpy as np
import pytest
import torch
from model_factory import make_model, make_task, plain_transformer, random_batch
from reference_weights import default_dtype, shake
from tree_models import make_dictionaries, make_parsing_task

from vaswani_plugin.kernels.packed_layers import FoldedMemory, SourceMemory
from vaswani_plugin.kernels.packed_step import PackedDecoder
from vaswani_plugin.search.models import CachedBeams

EXACT = {"atol": 1e-10, "rtol": 0}
LENGTHS = [(9, 10), (4, 10), (12, 10)]


@pytest.fixture(scope="module")
def task():
    return make_task()


def exact_model(task, **changes):
    with default_dtype(torch.float64):
        return shake(make_model(task, **changes), size=0.1).eval()


@pytest.fixture(params=[0, 1, 3, 100], ids=lambda r: f"window-{r}")
def model(request, task):
    return exact_model(task, attention_window=request.param)


@pytest.mark.parametrize("pieces", [[1] * 10, [1, 3, 1, 5], [4, 6], [10]], ids=str)
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


def test_the_cache_holds_every_position_so_far(task):
    model = exact_model(task, attention_window=3)
    batch = random_batch(task, LENGTHS)
    encoder_out = model.encoder(batch["src_tokens"])
    state = {}
    for end in range(1, 6):
        model.decoder(batch["prev_output_tokens"][:, :end], encoder_out, incremental_state=state)
    for layer in range(3):
        assert state[f"layers.{layer}.self_attention"]["key"].shape == (3, 4, 5, 8)
        assert state[f"layers.{layer}.cross_attention"]["key"].shape == (3, 4, 12, 8)


@pytest.mark.parametrize("order", [[2, 0, 1], [1, 1, 0], [2], [0, 0, 1, 1, 2, 2]], ids=str)
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


def test_a_cache_left_in_the_old_order_goes_wrong(task, model):
    """Else the test above could not fail."""
    batch = random_batch(task, LENGTHS)
    targets, picked = batch["prev_output_tokens"], torch.tensor([2, 0, 1])
    encoder_out = model.encoder(batch["src_tokens"])
    state = {}
    model.decoder(targets[:, :4], encoder_out, incremental_state=state)
    reordered = model.encoder.reorder_encoder_out(encoder_out, picked)
    step, _ = model.decoder(targets[picked][:, :5], reordered, incremental_state=state)
    expected = model.decoder(targets[picked][:, :5], reordered)[0][:, -1:]
    assert (step - expected).abs().max() > 1e-3


def test_reordered_encoder_output_is_that_of_the_picked_sentences(task):
    model = exact_model(task)
    batch = random_batch(task, LENGTHS)
    picked = torch.tensor([2, 0, 2, 1])
    reordered = model.encoder.reorder_encoder_out(
        model.encoder(batch["src_tokens"], need_weights=True), picked
    )
    expected = model.encoder(batch["src_tokens"][picked], need_weights=True)
    assert reordered["encoder_out"][0].shape == (12, 4, 32)
    for name in ("encoder_out", "encoder_padding_mask", "attention"):
        assert len(reordered[name]) == len(expected[name]) > 0
        for ours, theirs in zip(reordered[name], expected[name], strict=True):
            torch.testing.assert_close(ours, theirs, **EXACT)


def test_alignment_can_be_spared(task):
    model = exact_model(task)
    batch = random_batch(task, LENGTHS)
    encoder_out = model.encoder(batch["src_tokens"])
    first = batch["prev_output_tokens"][:, :1]
    with_alignment, extra = model.decoder(first, encoder_out, incremental_state={})
    torch.testing.assert_close(
        extra["attn"][0].sum(-1), torch.ones(3, 1, dtype=torch.float64), **EXACT
    )
    model.decoder.alignment_wanted = False
    without, extra = model.decoder(first, encoder_out, incremental_state={})
    assert extra["attn"] == [None]
    torch.testing.assert_close(without, with_alignment, **EXACT)


def packed(model, encoded, beam=4):
    return PackedDecoder(model.decoder).start(model.decoder.memory(encoded), beam)


def plain(model, encoded, beam):
    return CachedBeams(plain_transformer(model), model.decoder.memory(encoded), True)


@torch.no_grad()
def walk(model, batch, steps, widths, keeps, symbols=20, start=packed):
    """Decode with beams that follow random parents; yields (search's numbers, expected ones).

    Expected is the full forward pass over each hypothesis, a row of its own.
    """
    generator = torch.Generator().manual_seed(7)
    sources, sentences = batch["src_tokens"], batch["src_tokens"].size(0)
    known_lengths = sources.ne(model.encoder.padding_idx).sum(dim=1).numpy()
    encoded = model.encoder(sources, known_lengths=known_lengths)
    beams = start(model, encoded, max(widths))
    hypotheses, parents = torch.full((sentences, 1, 1), 2), None
    for step in range(steps):
        attention = beams.step(hypotheses[:, :, -1], parents)
        count, width, length = hypotheses.shape
        rows = hypotheses.reshape(count * width, length)
        encoder_out = model.encoder(sources.repeat_interleave(width, 0))
        logits, extra = model.decoder(rows, encoder_out, need_weights=True)
        shape = (count, width, -1)
        yield beams.logits(slice(None)), logits[:, -1].view(shape)
        yield beams.logits(slice(1, 2)), logits[:, -1].view(shape)[1:2]
        yield attention, extra["attn"][0][:, -1].view(shape)
        if step in keeps:
            kept = torch.tensor(keeps[step])
            beams.keep(kept)
            hypotheses, sources = hypotheses[kept], sources[kept]
        following = (len(hypotheses), widths[step % len(widths)])
        parents = torch.randint(0, width, following, generator=generator)
        tokens = torch.randint(4, symbols, following, generator=generator)
        past = hypotheses.gather(1, parents[:, :, None].expand(-1, -1, length))
        hypotheses = torch.cat((past, tokens[:, :, None]), dim=2)


@pytest.mark.parametrize("widths", [[1], [4], [3, 5, 2]], ids=str)
@pytest.mark.parametrize("sizes", [{}, {"d_k": 5, "d_v": 9}], ids=str)
@pytest.mark.parametrize("start", [packed, plain])
def test_beams_are_the_full_forward_pass(task, model, widths, sizes, start):
    """30 steps: room runs out several times; sentences leave, two at once and in another order."""
    if sizes:
        model = exact_model(task, attention_window=model.decoder.window, **sizes)
    batch = random_batch(task, [(9, 1), (4, 1), (12, 1), (7, 1)])
    keeps = {5: [0, 1, 2, 3], 9: [2, 0, 3], 17: [1]}
    for actual, expected in walk(model, batch, 30, widths, keeps, start=start):
        torch.testing.assert_close(actual, expected, **EXACT)


@pytest.mark.parametrize("sizes", [{}, {"d_k": 5, "d_v": 9}], ids=str)
@pytest.mark.parametrize(("length", "memory"), [(9, FoldedMemory), (30, SourceMemory)])
def test_one_sentence_alone(task, sizes, length, memory):
    """It is folded into the weights, unless it is so long that this would cost more."""
    model = exact_model(task, **sizes)
    batch = random_batch(task, [(length, 1)])
    encoded = model.encoder(batch["src_tokens"], known_lengths=np.array([length]))
    beams = packed(model, encoded)
    assert all(isinstance(m, memory) for m in beams.memories)
    for actual, expected in walk(model, batch, 12, [4], {5: [0]}):
        torch.testing.assert_close(actual, expected, **EXACT)


@pytest.fixture(scope="module")
def parser():
    """A parser whose decoder is told which word comes next."""
    words, symbols = make_dictionaries(True)
    return exact_model(
        make_parsing_task(words, symbols), share_embeddings="decoder", next_word=True
    )


def words_and_symbols(parser, lengths):
    """Random words, whole and in pieces, and symbols."""
    generator = torch.Generator().manual_seed(3)
    sizes = [len(side.dictionary) for side in (parser.encoder, parser.decoder)]
    pad, eos = 1, 2
    sources, targets = (
        torch.full((len(lengths), max(length)), pad) for length in zip(*lengths, strict=True)
    )
    for row, (source, target) in enumerate(lengths):
        sources[row, :source] = torch.randint(4, sizes[0], (source,), generator=generator)
        sources[row, source - 1] = eos
        targets[row, :target] = torch.randint(4, sizes[1], (target,), generator=generator)
        targets[row, 0] = eos
    return {"src_tokens": sources, "prev_output_tokens": targets}


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


@pytest.mark.parametrize("widths", [[4], [3, 5, 2]], ids=str)
@pytest.mark.parametrize("start", [packed, plain])
def test_a_parsers_beams_are_the_full_forward_pass(parser, widths, start):
    batch = words_and_symbols(parser, [(9, 1), (4, 1), (12, 1), (7, 1)])
    keeps = {5: [0, 1, 2, 3], 9: [2, 0, 3], 17: [1]}
    symbols = len(parser.decoder.dictionary)
    for actual, expected in walk(parser, batch, 30, widths, keeps, symbols, start):
        torch.testing.assert_close(actual, expected, **EXACT)


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


def test_beams_in_single_precision(task):
    """Other kernels than those of float64; 40 beams reach the ones for many rows."""
    model = shake(make_model(task), size=0.1).eval()
    batch = random_batch(task, LENGTHS)
    for actual, expected in walk(model, batch, 12, [40], {5: [2, 0]}):
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


def test_slots_that_no_beam_sees_are_dropped(task):
    """However long the outputs, beams with a common past keep little more than one copy of it."""
    model = exact_model(task)
    batch = random_batch(task, LENGTHS)
    beams = packed(model, model.encoder(batch["src_tokens"]))
    tokens = torch.full((3, 4), 5)
    first = torch.zeros(3, 4, dtype=torch.long)
    for step in range(60):
        beams.step(tokens if step else tokens[:, :1], first if step else None)
    assert beams.past.caches[0].size(2) < 60 + 2 * 8 * 4
