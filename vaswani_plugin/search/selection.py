"""Which continuations go on: the best of all, diverse groups of them, or samples.

Each function takes log P of the next token and of the hypotheses so far and returns candidates:
their log P, their token, and the beam, counted within its group, that they continue.

Axes: b sentences, W beams, V vocabulary, G groups of w = W/G beams, C candidates of a group.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

BLOCKS = 16
"""The vocabulary falls into blocks of as many tokens; their maxima say where the best are."""


WORTH_BLOCKS = 2**16
"""Log-probabilities from which looking for blocks first pays."""


class Candidates(NamedTuple):
    """Continuations of each group, the best first: three tensors (b, G, C)."""

    log_probabilities: Tensor
    tokens: Tensor
    beams: Tensor


def best(log_p: Tensor, so_far: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The greatest sums of log P of a token and of its hypothesis, by one look at the vocabulary.

    The k greatest entries lie in the k blocks with the greatest maxima.

    Args:
        log_p: (b, W, V).
        so_far: (b, W).
        count: at most W V.

    Returns:
        The greatest first, and their places in the flattened (W V): both (b, count).
    """
    sentences, beams, vocabulary = log_p.shape
    width = vocabulary // BLOCKS
    if beams * width < 4 * count or log_p.numel() < WORTH_BLOCKS:
        return (log_p + so_far[:, :, None]).flatten(1).topk(count, dim=1)
    # A block is every width-th token: its maximum is then taken over whole vectors.
    maxima = log_p[..., : BLOCKS * width].unflatten(2, (BLOCKS, width)).amax(dim=2)
    maxima = maxima.add_(so_far[:, :, None]).flatten(1)
    block = maxima.topk(count, dim=1, sorted=False).indices  # (b, count)
    first = block // width * vocabulary + block % width
    inside = torch.arange(BLOCKS, device=log_p.device) * width
    beam = torch.arange(beams, device=log_p.device)[:, None] * vocabulary
    rest = beam + torch.arange(BLOCKS * width, vocabulary, device=log_p.device)
    rest = rest.flatten().expand(sentences, -1)
    places = torch.cat(((first[:, :, None] + inside).flatten(1), rest), dim=1)
    totals = log_p.flatten(1).gather(1, places) + so_far.gather(1, places // vocabulary)
    top = totals.topk(count, dim=1)
    return top.values, places.gather(1, top.indices)


def best_candidates(log_p: Tensor, so_far: Tensor, beam: int) -> Candidates:
    """Beam search: the 2 W likeliest, of which W are left when all beams of W end.

    Args:
        log_p: of the next token, (b, W', V), where W' is 1 at the start.
        so_far: log P of the hypotheses, (b, W').
        beam: W.
    """
    vocabulary = log_p.size(2)
    count = min(2 * beam, log_p.size(1) * vocabulary - 1)  # padding never comes
    values, places = best(log_p, so_far, count)
    found = values, places % vocabulary, places // vocabulary
    return Candidates(*(x[:, None] for x in found))


def diverse_candidates(
    log_p: Tensor, so_far: Tensor, beam: int, groups: int, strength: float, open_groups: Tensor
) -> Candidates:
    """Vijayakumar et al. 2018: a group avoids what the groups before it chose in this step.

    A token's log P is lowered for this choice by `strength` for each of its earlier
    choices; the candidates carry log P itself.

    Args:
        log_p: of the next token, (b, W', V), where W' is 1 at the start.
        so_far: log P of the hypotheses, (b, W').
        beam: W.
        groups: G.
        strength: of the avoidance.
        open_groups: boolean (b, G); a group that is done is not avoided.
    """
    w = beam // groups
    chosen = log_p.new_zeros(log_p.size(0), 1, log_p.size(2))
    collected = []
    for group in range(groups):
        own = slice(0, 1) if log_p.size(1) == 1 else slice(group * w, (group + 1) * w)
        count = min(2 * w, log_p[:, own].size(1) * log_p.size(2) - 1)
        _, places = best(log_p[:, own] - strength * chosen, so_far[:, own], count)
        tokens = places % log_p.size(2)
        going_on = open_groups[:, group, None] & (torch.arange(count, device=places.device) < w)
        chosen.scatter_add_(2, tokens[:, None], going_on[:, None].to(chosen))
        values = (log_p[:, own] + so_far[:, own, None]).flatten(1).gather(1, places)
        collected.append((values, tokens, places // log_p.size(2)))
    return Candidates(*(torch.stack(x, dim=1) for x in zip(*collected, strict=True)))


def sampled_candidates(
    log_p: Tensor,
    so_far: Tensor,
    beam: int,
    top_k: int = 0,
    top_p: float = 0.0,
    random: torch.Generator | None = None,
) -> Candidates:
    """W samples, each a group of its own, that go their ways independently.

    Args:
        log_p: of the next token, (b, W', V), where W' is 1 at the start.
        so_far: log P of the hypotheses, (b, W').
        beam: W.
        top_k: sample among the k likeliest only; 0 or less: among all.
        top_p: sample among the fewest likeliest whose probabilities reach p together
            (Holtzman et al. 2020); 0 or less: among all.
        random: draws the samples; None: PyTorch's own generator of the device.
    """
    if top_p > 0:
        kept, tokens = log_p.sort(dim=2, descending=True)
        probability = kept.exp()
        before = probability.cumsum(dim=2) - probability
        kept = kept.masked_fill(before >= top_p, -math.inf)
    elif top_k > 0:
        kept, tokens = log_p.topk(min(top_k, log_p.size(2)), dim=2)
    else:
        kept, tokens = log_p, None
    weights = kept.softmax(dim=2)
    draws = beam if log_p.size(1) == 1 else 1
    drawn = weights.flatten(0, 1).multinomial(draws, replacement=True, generator=random)
    drawn = drawn.view(-1, beam)  # (b, W)
    rows = log_p.expand(-1, beam, -1)
    place = drawn[:, :, None]
    if tokens is not None:
        place = tokens.expand(-1, beam, -1).gather(2, place)
    values = rows.gather(2, place) + so_far.expand(-1, beam)[:, :, None]
    return Candidates(values, place, torch.zeros_like(place))
