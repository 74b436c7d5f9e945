"""Trains the paper's Transformer to copy sequences: a minute on one core, and no fairseq.

python -m examples.copy_task
"""

import torch
from torch import Tensor

from vaswani_plugin.modules.loss import label_smoothed_cross_entropy
from vaswani_plugin.modules.masks import padding_mask
from vaswani_plugin.modules.schedule import learning_rate
from vaswani_plugin.modules.transformer import Transformer

PAD, START, END, FIRST, VOCABULARY = 0, 1, 2, 3, 30
UPDATES, WARM_UP, D_MODEL = 400, 100, 64


def make_batch(sentences: int = 64, most: int = 10) -> Tensor:
    """Random sequences of 1 to `most` symbols and their end, padded on the right."""
    batch = torch.randint(FIRST, VOCABULARY, (sentences, most + 1))
    ends = torch.randint(1, most + 1, (sentences, 1))
    places = torch.arange(most + 1)
    return batch.masked_fill(places == ends, END).masked_fill(places > ends, PAD)


@torch.no_grad()
def copy_greedily(model: Transformer, source: Tensor) -> Tensor:
    """Take the likeliest symbol at each position; the cache keeps what was computed before."""
    memory, mask = model.encoder(source).features, padding_mask(source, PAD)
    output, cache = torch.full((len(source), 1), START), {}
    for _ in range(source.size(1)):
        features = model.decoder(output, memory, mask, cache).features
        output = torch.cat((output, model.decoder.project(features[:, -1:]).argmax(-1)), dim=1)
    return output[:, 1:]


def main() -> None:
    torch.manual_seed(1)
    model = Transformer(VOCABULARY, VOCABULARY, PAD, layers=2, d_model=D_MODEL, d_ff=128, heads=4)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for update in range(1, UPDATES + 1):
        source = make_batch()
        shifted = torch.cat((torch.full_like(source[:, :1], START), source[:, :-1]), dim=1)
        logits = model(source, shifted).flatten(0, 1)
        loss, _ = label_smoothed_cross_entropy(logits, source.flatten(), 0.1, PAD)
        optimizer.param_groups[0]["lr"] = learning_rate(update, D_MODEL, WARM_UP)
        optimizer.zero_grad()
        (loss.sum() / source.ne(PAD).sum()).backward()
        optimizer.step()
        if update % 100 == 0:
            print(f"update {update}: loss {loss.sum() / source.ne(PAD).sum():.3f} nats a symbol")
    source = make_batch(200)
    right = (copy_greedily(model.eval(), source).eq(source) | source.eq(PAD)).all(dim=1)
    print(f"copied without a mistake: {int(right.sum())} of {len(source)}")


if __name__ == "__main__":
    main()
