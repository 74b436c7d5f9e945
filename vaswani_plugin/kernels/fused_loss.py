"""Projection and smoothed loss in one: the logits never exist all at once.

Replaces `modules.loss.projected_loss`.
Gain: `vaswani_tiny` trains 2.3 times as fast on an AMD EPYC with AVX-512.

It works through the tokens in chunks and forms the gradients in the forward pass: d loss / d logits
= softmax(logits) - q, turned at once into the two products that it feeds, so that memory does not
grow with N x V.

q is the same for all tokens but the gold one. Its constant part goes past the logits: it takes
multiples of the sum of all rows from the gradients, of the weight's rows and of the features'.

Axes: N target tokens, R tokens of a chunk, D d_model, V vocabulary.
"""

import torch
from torch import Tensor

from vaswani_plugin.kernels.conditions import applies_to
from vaswani_plugin.matrix_library import product, takes_onednn
from vaswani_plugin.modules.loss import SmoothedLoss, projected_loss, smoothing_weights

CHUNK_ELEMENTS = 3 << 21
"""Logits formed at a time: 24 MiB in float32, which a last-level cache holds."""


def fused_projected_loss(
    features: Tensor,
    weight: Tensor,
    target: Tensor,
    epsilon: float,
    padding_idx: int,
    count_correct: bool = False,
) -> SmoothedLoss:
    """`projected_loss`, equal in value and gradient."""
    dtype = features.dtype
    if torch.is_autocast_enabled("cpu"):
        dtype = torch.get_autocast_dtype("cpu")
    if dtype == torch.float16 or not applies_to(features, weight, under_autocast=True):
        # Float16's gradients would be formed before the loss is scaled, and underflow.
        return projected_loss(features, weight, target, epsilon, padding_idx, count_correct)
    features, weight = features.to(dtype), weight.to(dtype)
    real = target.ne(padding_idx)
    if not real.all():
        features, target = features[real], target[real]
    with torch.autocast("cpu", enabled=False):
        sums = _FusedLoss.apply(features, weight, target, epsilon, count_correct)
    return SmoothedLoss(*sums)


def chunk_rows(vocabulary: int, width: int) -> int:
    """Tokens at a time: as the cache holds, and at least as many as fill a matrix of width D.

    With fewer, adding to the weight's gradient takes longer than the product that is added.
    """
    return max(1, CHUNK_ELEMENTS // vocabulary, width)


class _Gradients:
    """Gradients of features and weight, and the chunks of logits that they are made of.

    Args:
        features: (N, D).
        weight: (V, D).
        wanted: whether the gradient of the features is wanted, and that of the weight.
    """

    def __init__(self, features: Tensor, weight: Tensor, wanted: tuple[bool, bool]) -> None:
        self.weight, self.dtype = weight, torch.promote_types(features.dtype, torch.float32)
        self.of_features = torch.empty_like(features) if wanted[0] else None
        self.of_weight = None
        if wanted[1]:
            # oneDNN adds up the transpose of the gradient: its faster order.
            shape = weight.shape[::-1] if takes_onednn(weight) else weight.shape
            self.of_weight = weight.new_zeros(shape, dtype=self.dtype)
        self.room: Tensor | None = None

    def logits(self, x: Tensor) -> Tensor:
        """Of some tokens, (R, D) -> (R, V); the next call takes the memory again."""
        if takes_onednn(x):
            return product(x, self.weight).to(self.dtype)
        if self.room is None:
            self.room = x.new_empty(len(x), len(self.weight))
        return product(x, self.weight, out=self.room[: len(x)]).to(self.dtype)

    def add(self, chunk: slice, x: Tensor, of_logits: Tensor) -> None:
        """Add what the gradient of some tokens' logits, (R, V), makes of both."""
        of_logits = of_logits.to(x.dtype)
        if self.of_features is not None:
            self.of_features[chunk] = product(of_logits, self.weight.t())
        if self.of_weight is None:
            return
        if self.of_weight.shape != self.weight.shape:
            self.of_weight += product(x.t(), of_logits.t())
        elif self.dtype != x.dtype:
            self.of_weight += product(of_logits.t(), x.t())
        else:
            torch.addmm(self.of_weight, of_logits.t(), x, out=self.of_weight)

    def subtract_constant(self, q: float, features: Tensor) -> None:
        """Take what the smoothing's q, the same for every logit, takes from both."""
        if self.of_features is not None:
            self.of_features -= (q * self.weight.sum(dim=0, dtype=self.dtype)).to(features.dtype)
        if self.of_weight is not None:
            if self.of_weight.shape != self.weight.shape:
                self.of_weight = self.of_weight.t()
            self.of_weight -= q * features.sum(dim=0, dtype=self.dtype)


class _FusedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, features, weight, target, epsilon, count_correct):
        gold_weight, other_weight = smoothing_weights(epsilon, len(weight))
        gradients = _Gradients(features, weight, ctx.needs_input_grad[:2])
        weight_sum = weight.sum(dim=0, dtype=gradients.dtype)  # sum_j z_j = features . weight_sum
        # each a tensor of its own, no view: fairseq multiplies a dummy batch's loss by 0 in place
        loss, nll = (features.new_zeros((), dtype=gradients.dtype) for _ in range(2))
        correct = target.new_zeros(())
        rows = chunk_rows(*weight.shape)
        for start in range(0, len(target), rows):
            chunk = slice(start, start + rows)
            x, gold_index = features[chunk], target[chunk, None]
            logits = gradients.logits(x)
            if count_correct:
                correct += logits.argmax(dim=-1, keepdim=True).eq(gold_index).sum()
            gold, highest = logits.gather(-1, gold_index), logits.amax(-1, keepdim=True)
            others = (x.to(gold.dtype) @ weight_sum)[:, None] - gold
            probabilities = torch.softmax(logits, dim=-1, out=logits)
            # lse = log sum_j exp z_j, by the token whose probability can't underflow
            lse = highest - probabilities.amax(-1, keepdim=True).log()
            loss += (lse - gold_weight * gold - other_weight * others).sum()
            nll += (lse - gold).sum()
            if any(ctx.needs_input_grad):
                surplus = torch.full_like(gold, other_weight - gold_weight)
                gradients.add(chunk, x, probabilities.scatter_add_(-1, gold_index, surplus))
        gradients.subtract_constant(other_weight, features)
        ctx.save_for_backward(gradients.of_features, gradients.of_weight)
        ctx.dtype = weight.dtype
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
        return of_features, of_weight, None, None, None
