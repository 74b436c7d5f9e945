"""How a step of the search chooses: the likeliest continuations, diverse groups of them, samples.

Each function takes log P of the next token (b, W, V) and of the hypotheses so far (b, W).

Axes: b sentences, W beams, V vocabulary, G groups of w = W/G beams, C candidates of a group.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from vaswani_plugin.model.build import has_search_shortcuts

BLOCKS = 16
"""Tokens of a block of the vocabulary. The blocks' maxima show where the best tokens are."""
WORTH_BLOCKS = 2**16
"""Number of log-probabilities from which the search by blocks pays."""


class Candidates(NamedTuple):
    """Continuations of each group, by preference: three tensors (b, G, C)."""

    log_probabilities: Tensor
    tokens: Tensor
    beams: Tensor  # that they continue, numbered within the group


def best(log_p: Tensor, so_far: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Find the `count` greatest sums of a token's log P and its hypothesis's, in one pass.

    The k greatest entries are in the k blocks with the greatest maxima. Returns the sums, greatest
    first, and their places in the flattened (W V): both (b, count).
    """
    sentences, beams, vocabulary = log_p.shape
    width = vocabulary // BLOCKS
    is_small = beams * width < 4 * count or log_p.numel() < WORTH_BLOCKS
    if is_small or not has_search_shortcuts():
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
    """Select for beam search: the 2 W likeliest, so that W unfinished ones remain if W end."""
    count = min(2 * beam, log_p.size(1) * log_p.size(2) - 1)  # padding never comes
    values, places = (x[:, None] for x in best(log_p, so_far, count))
    return Candidates(values, places % log_p.size(2), places // log_p.size(2))


def diverse_candidates(
    log_p: Tensor, so_far: Tensor, beam: int, groups: int, strength: float, open_groups: Tensor
) -> Candidates:
    """Vijayakumar et al. 2018: a group avoids tokens that earlier groups chose in this step.

    For the choice alone, a token's log P is lowered by `strength` each time an earlier group chose
    it; choices of groups that are done, False in `open_groups` (b, G), don't count.
    """
    w = beam // groups
    chosen = log_p.new_zeros(log_p.size(0), 1, log_p.size(2))
    collected = []
    for group in range(groups):
        beams = slice(0, 1) if log_p.size(1) == 1 else slice(group * w, (group + 1) * w)
        count = min(2 * w, log_p[:, beams].size(1) * log_p.size(2) - 1)
        _, places = best(log_p[:, beams] - strength * chosen, so_far[:, beams], count)
        tokens = places % log_p.size(2)
        going_on = open_groups[:, group, None] & (torch.arange(count, device=places.device) < w)
        chosen.scatter_add_(2, tokens[:, None], going_on[:, None].to(chosen))
        values = (log_p[:, beams] + so_far[:, beams, None]).flatten(1).gather(1, places)
        collected.append((values, tokens, places // log_p.size(2)))
    return Candidates(*(torch.stack(x, dim=1) for x in zip(*collected, strict=True)))


def sampled_candidates(
    log_p: Tensor,
    so_far: Tensor,
    beam: int,
    top_k: int,
    top_p: float,
    random: torch.Generator | None,
) -> Candidates:
    """Draw W independent samples, each a group of its own: of all tokens, of the `top_k` likeliest,
    or of the fewest likeliest whose probability reaches `top_p` (Holtzman et al. 2020), if above 0.
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
    # Where every token is ruled out, any one is drawn; its log P of -inf ends the sample.
    weights = kept.softmax(dim=2).nan_to_num(1.0)
    draws = beam if log_p.size(1) == 1 else 1
    drawn = weights.flatten(0, 1).multinomial(draws, replacement=True, generator=random)
    place = drawn.view(-1, beam)[:, :, None]  # (b, W, 1)
    if tokens is not None:
        place = tokens.expand(-1, beam, -1).gather(2, place)
    values = log_p.expand(-1, beam, -1).gather(2, place) + so_far.expand(-1, beam)[:, :, None]
    return Candidates(values, place, torch.zeros_like(place))
