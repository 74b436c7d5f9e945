"""Projection and smoothed loss in one function, which never holds all logits at once.

Replaces `modules.loss.projected_loss`, on any device. Gain: `vaswani_tiny` trains 1.3 to 1.6
times as fast (AMD EPYC, Intel Xeon). On a GPU the gain is memory: the float32 logits of 25,000
tokens over 37,000 words take 3.7 GB, and the plain loss keeps several copies.

The forward pass takes the tokens in chunks and computes the gradients, too, if they are wanted. A
chunk's d loss / d logits = softmax(logits) - q is at once multiplied into the gradients of the
features and of the weight, so memory does not grow with N x V. q, the smoothed target distribution,
is one constant for all tokens but the gold one. It is subtracted from both gradients at the end,
times the sum of the weight's rows, or of the features'.

Axes: N target tokens, R tokens of a chunk, D d_model, V vocabulary.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vaswani_plugin.kernels.layers import product, takes_onednn
from vaswani_plugin.kernels.proof import LARGE, can_run_on, is_proven, structure, with_gradients
from vaswani_plugin.modules.loss import SmoothedLoss, projected_loss, smoothing_weights
from vaswani_plugin.processor import runs_on_host

CHUNK_ELEMENTS = 3 << 21
"""Logits computed at a time: 24 MiB in float32, which fit into a last-level cache."""
DEVICE_CHUNK_ELEMENTS = 1 << 26
"""The same on other devices: 256 MiB in float32, enough to keep a GPU busy."""


def fused_projected_loss(
    features: Tensor,
    weight: Tensor,
    target: Tensor,
    epsilon: float,
    padding_idx: int,
    count_correct: bool = False,
) -> SmoothedLoss:
    """Compute `projected_loss`, with the same value and gradient; see there for the arguments."""
    dtype, kind = features.dtype, features.device.type
    has_autocast = torch.amp.is_autocast_available(kind)
    if has_autocast and torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
    applies = can_run_on(features, weight, under_autocast=True, on_any_device=True)
    if dtype == torch.float16 or not applies:
        # In float16 the gradients, computed before the loss is scaled, would underflow.
        return projected_loss(features, weight, target, epsilon, padding_idx, count_correct)
    if not torch.is_grad_enabled():
        # In validation. `ctx.needs_input_grad` is True for a parameter even then.
        features, weight = features.detach(), weight.detach()
    features = features.to(dtype)
    real: Any = target.ne(padding_idx)
    if runs_on_host(features.device):  # where reading a value costs no wait
        if not real.all():
            features, target = features[real], target[real]
        real = None
    with torch.autocast(kind, enabled=False) if has_autocast else nullcontext():
        sums = _FusedLoss.apply(features, weight, target, real, epsilon, count_correct)
    return SmoothedLoss(*sums)


def fused_loss_of(model: Any) -> Callable[..., SmoothedLoss] | None:
    """Return the fused loss where it is that of `modules`, or else what the model has by now.

    The model's decoder must project by the product with one matrix, as the fused loss does.
    """
    plain, decoder = model.projected_loss or projected_loss, model.decoder
    if plain is fused_projected_loss:
        return plain
    matrix = getattr(decoder, "projection", decoder.embedding)
    weight, project = matrix.weight, getattr(decoder, "output_layer", decoder.project)
    projections = project, partial(F.linear, weight=weight)
    functions = project, decoder.project, getattr(type(matrix), "project", None)
    key = tuple(getattr(each, "__func__", each) for each in functions), structure(matrix)

    def features(project: Callable[[Tensor], Tensor]) -> list[Tensor | None]:
        x = (LARGE * torch.randn(3, weight.size(1), device="cpu")).to(weight).requires_grad_()
        return with_gradients(project, [x], [*decoder.parameters()])  # a bias of 0 has one, too

    losses, file = (plain, fused_projected_loss), "fused_loss.py"
    is_equal = is_proven("The projected loss", plain, file, lambda: losses, _trial)
    if is_equal and not weight.is_meta:
        is_equal = is_proven("The projection", key, file, lambda: projections, features)
    return fused_projected_loss if is_equal else model.projected_loss


def _trial(compute: Callable[..., SmoothedLoss]) -> list[Tensor | None]:
    """Two losses of random tokens, some of which are padding, with the gradients."""
    options: Any = {"dtype": torch.float64, "device": "cpu"}
    inputs = [(3 * torch.randn(rows, 6, **options)).requires_grad_() for rows in (9, 23)]
    target = torch.randint(0, 4, (9,), device="cpu")
    results: list[Tensor | None] = []
    for epsilon in (0.0, 0.1):
        sums = compute(*inputs, target, epsilon, 1, True)
        results += [sums.nll.detach(), sums.correct]
        results += with_gradients(lambda *x, e=epsilon: compute(*x, target, e, 1).loss, inputs, [])
    return results


def chunk_rows(vocabulary: int, width: int, in_cache: bool) -> int:
    """Return the number of tokens in a chunk: as many as the cache holds, but at least D.

    With fewer, accumulating the weight's gradient takes longer than the products themselves.
    """
    elements = CHUNK_ELEMENTS if in_cache else DEVICE_CHUNK_ELEMENTS
    return max(1, elements // vocabulary, width)


class _FusedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, features, weight, target, real, epsilon, count_correct):
        """`real` (N,) is False at padding, which counts as 0; None: there is none."""
        dtype = torch.promote_types(features.dtype, torch.float32)
        weight_sum = weight.sum(dim=0, dtype=dtype)  # sum_j z_j = features . weight_sum
        ctx.dtype, weight = weight.dtype, weight.to(features.dtype)  # its gradient stays wide
        gold_weight, other_weight = smoothing_weights(epsilon, len(weight))
        rows = min(chunk_rows(len(weight), weight.size(1), in_cache=real is None), len(target))
        kept = features if real is None else features * real[:, None]
        of_features = torch.empty_like(features) if ctx.needs_input_grad[0] else None
        of_weight, is_transposed = None, takes_onednn(weight)
        if ctx.needs_input_grad[1]:  # oneDNN is faster with the transposed gradient
            of_weight = weight.new_zeros(
                weight.shape[::-1] if is_transposed else weight.shape, dtype=dtype
            )
        # On a CPU in bfloat16, new memory for each chunk would cost a fifth of the time.
        room, wide, part = features.new_empty(rows, len(weight)), None, None
        if real is None and dtype != features.dtype:
            wide, part = torch.empty_like(room, dtype=dtype), torch.empty_like(weight)
            wide_part = torch.empty_like(weight, dtype=dtype)
        # separate tensors, not views: fairseq multiplies a dummy batch's loss by 0 in place
        loss, nll = (features.new_zeros((), dtype=dtype) for _ in range(2))
        correct = target.new_zeros(())
        for start in range(0, len(target), max(1, rows)):
            chunk = slice(start, start + rows)
            x, gold_index = features[chunk], target[chunk, None]
            counts = True if real is None else real[chunk, None]
            logits = product(x, weight, out=None if takes_onednn(x) else room[: len(x)])
            if wide is not None:
                logits = wide[: len(x)].copy_(logits)
            if count_correct:
                correct += (logits.argmax(dim=-1, keepdim=True).eq(gold_index) & counts).sum()
            gold = logits.gather(-1, gold_index).to(dtype)
            highest = logits.amax(-1, keepdim=True).to(dtype)
            others = (x.to(dtype) @ weight_sum)[:, None] - gold
            # on a CPU, whose softmax allows it, in place: the logits' memory is in the cache
            out = logits if real is None else None
            probabilities = torch.softmax(logits, dim=-1, dtype=dtype, out=out)
            # lse = log sum_j exp z_j, from the likeliest token: its probability can't underflow
            lse = highest - probabilities.amax(-1, keepdim=True).log()
            loss += (counts * (lse - gold_weight * gold - other_weight * others)).sum()
            nll += (counts * (lse - gold)).sum()
            if not any(ctx.needs_input_grad):
                continue
            surplus = torch.full_like(gold, other_weight - gold_weight)
            of_logits, x = probabilities.scatter_add_(-1, gold_index, surplus), kept[chunk]
            of_logits = of_logits.to(x.dtype) if wide is None else room[: len(x)].copy_(of_logits)
            if of_features is not None:
                of_features[chunk] = product(of_logits, weight.t())
            if of_weight is not None and is_transposed:
                of_weight += product(x.t(), of_logits.t())
            elif of_weight is not None and dtype != x.dtype:
                of_part = product(of_logits.t(), x.t(), out=part)
                of_weight += of_part if wide is None else wide_part.copy_(of_part)
            elif of_weight is not None:
                torch.addmm(of_weight, of_logits.t(), x, out=of_weight)
        if of_features is not None:
            of_features -= (other_weight * weight_sum).to(features.dtype)
            if real is not None:
                of_features *= real[:, None]
        if of_weight is not None:
            of_weight = of_weight.t() if is_transposed else of_weight
            of_weight -= other_weight * kept.sum(dim=0, dtype=dtype)
        ctx.save_for_backward(of_features, of_weight)
        ctx.mark_non_differentiable(nll, correct)
        return loss, nll, correct

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_loss, grad_nll, grad_correct):
        of_features, of_weight = ctx.saved_tensors
        if of_features is not None:
            of_features = of_features * grad_loss.to(of_features.dtype)
        if of_weight is not None:
            of_weight = torch.mul(of_weight, grad_loss).to(ctx.dtype).contiguous()
        return of_features, of_weight, None, None, None, None
