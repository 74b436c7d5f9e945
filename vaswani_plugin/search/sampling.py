"""Other choices of a search than the likeliest continuations: diverse groups of them, and samples.

Each function takes log P of the next token and of the hypotheses so far, as `best_candidates` does.

Axes: b sentences, W beams, V vocabulary, G groups of w = W/G beams, C candidates of a group.
"""

import math

import torch
from torch import Tensor

from vaswani_plugin.search.beam_search import Candidates, best


def diverse_candidates(
    log_p: Tensor, so_far: Tensor, beam: int, groups: int, strength: float, open_groups: Tensor
) -> Candidates:
    """Vijayakumar et al. 2018: a group avoids tokens that earlier groups chose in this step.

    For the choice, a token's log P is lowered by `strength` each time an earlier group chose the
    token; choices of groups that are done, False in `open_groups` (b, G), don't count. The log P of
    the returned candidates is not lowered.
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
    top_k: int,
    top_p: float,
    random: torch.Generator | None,
) -> Candidates:
    """Draw W independent samples, each a group of its own.

    From the `top_k` likeliest tokens only, or from the smallest set of likeliest tokens whose total
    probability reaches `top_p` (Holtzman et al. 2020); 0 or less: from all.
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
    drawn = drawn.view(-1, beam)  # (b, W)
    rows = log_p.expand(-1, beam, -1)
    place = drawn[:, :, None]
    if tokens is not None:
        place = tokens.expand(-1, beam, -1).gather(2, place)
    values = rows.gather(2, place) + so_far.expand(-1, beam)[:, :, None]
    return Candidates(values, place, torch.zeros_like(place))
