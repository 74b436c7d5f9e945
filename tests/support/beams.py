"""Beams that follow random parents, beside the full forward pass over each hypothesis."""

import torch
from model_factory import make_model, plain_transformer
from reference_weights import default_dtype, shake
from tree_models import make_dictionaries, make_parsing_task

from vaswani_plugin.search.models import CachedBeams

EXACT = {"atol": 1e-10, "rtol": 0}


def exact_model(task, **changes):
    with default_dtype(torch.float64):
        return shake(make_model(task, **changes), size=0.1).eval()


def make_parser():
    """A parser whose decoder is told which word comes next."""
    words, symbols = make_dictionaries(True)
    task = make_parsing_task(words, symbols)
    return exact_model(task, share_embeddings="decoder", next_word=True)


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


def plain(model, encoded, beam):
    return CachedBeams(plain_transformer(model), model.decoder.memory(encoded), True)


def packed(model, encoded, beam=4):
    from vaswani_plugin.kernels.packed import Packing

    return Packing().of(model.decoder, final=True).start(model.decoder.memory(encoded), beam, True)


@torch.no_grad()
def walk(model, batch, steps, widths, keeps, symbols=20, start=plain):
    """Decode with beams of random parents; yields the search's numbers and those of full passes."""
    generator = torch.Generator().manual_seed(7)
    sources, sentences = batch["src_tokens"], batch["src_tokens"].size(0)
    known_lengths = sources.ne(model.encoder.padding_idx).sum(dim=1).numpy()
    beams = start(model, model.encoder(sources, known_lengths=known_lengths), max(widths))
    hypotheses, parents = torch.full((sentences, 1, 1), 2), None
    for step in range(steps):
        attention = beams.step(hypotheses[:, :, -1], parents)
        count, width, length = hypotheses.shape
        rows = hypotheses.reshape(count * width, length)
        logits, extra = model.decoder(rows, model.encoder(sources.repeat_interleave(width, 0)))
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
