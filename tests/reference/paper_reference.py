"""The paper's equations for one sentence (T, D) as NumPy float64 loops, from the text alone.

Axes: T queries or positions, S keys, D d_model, H heads, K d_k, V d_v or vocabulary.
"""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = dict[str, Array]
Layer = dict[str, Weights]


def attention(query: Array, key: Array, value: Array, mask: NDArray[np.bool_] | None = None):
    """Eq. 1, a query at a time: outputs (T, V) and weights (T, S); `mask` True is visible.

    A query that sees nothing gets zeros.
    """
    queries, d_k = query.shape
    keys, d_v = value.shape
    outputs, weights = np.zeros((queries, d_v)), np.zeros((queries, keys))
    for i in range(queries):
        visible = [j for j in range(keys) if mask is None or mask[i, j]]
        if not visible:
            continue
        scores = {}
        for j in visible:
            scores[j] = sum(query[i, c] * key[j, c] for c in range(d_k)) / math.sqrt(d_k)
        highest = max(scores.values())
        exponentials = {j: math.exp(scores[j] - highest) for j in visible}
        total = sum(exponentials.values())
        for j in visible:
            weights[i, j] = exponentials[j] / total
            for c in range(d_v):
                outputs[i, c] += weights[i, j] * value[j, c]
    return outputs, weights


def multi_head_attention(
    query: Array, memory: Array, weights: Weights, mask: NDArray[np.bool_] | None = None
):
    """Section 3.2.2: outputs (T, D) and the weights of each head (H, T, S).

    `weights` holds W_Q, W_K (H, D, K), W_V (H, D, V), W_O (H V, D) and the biases
    b_Q, b_K (H, K), b_V (H, V), b_O (D,).
    """
    heads, attended = [], []
    for h in range(len(weights["W_Q"])):
        q = query @ weights["W_Q"][h] + weights["b_Q"][h]
        k = memory @ weights["W_K"][h] + weights["b_K"][h]
        v = memory @ weights["W_V"][h] + weights["b_V"][h]
        output, row_weights = attention(q, k, v, mask)
        heads.append(output)
        attended.append(row_weights)
    concatenated = np.concatenate(heads, axis=1)
    return concatenated @ weights["W_O"] + weights["b_O"], np.stack(attended)


def feed_forward(x: Array, weights: Weights) -> Array:
    """Eq. 2, a position at a time; W_1 (D, F), b_1, W_2 (F, D), b_2."""
    rows = []
    for row in x:
        hidden = [max(0.0, z) for z in row @ weights["W_1"] + weights["b_1"]]
        rows.append(np.array(hidden) @ weights["W_2"] + weights["b_2"])
    return np.stack(rows)


def layer_norm(x: Array, weights: Weights, eps: float) -> Array:
    """Each row less its mean, over the root of its (biased) variance plus eps; gain and bias."""
    rows = []
    for row in x:
        mean = sum(row) / len(row)
        variance = sum((value - mean) ** 2 for value in row) / len(row)
        normal = (row - mean) / math.sqrt(variance + eps)
        rows.append(normal * weights["gain"] + weights["bias"])
    return np.stack(rows)


def encoder_layer(
    x: Array, layer: Layer, eps: float, mask: NDArray[np.bool_] | None = None
) -> Array:
    """Section 3.1: two sub-layers, each LayerNorm(x + Sublayer(x))."""
    attended, _ = multi_head_attention(x, x, layer["self_attention"], mask)
    x = layer_norm(x + attended, layer["self_attention_norm"], eps)
    return layer_norm(x + feed_forward(x, layer["feed_forward"]), layer["feed_forward_norm"], eps)


def decoder_layer(
    x: Array, memory: Array, layer: Layer, eps: float, mask: NDArray[np.bool_] | None = None
) -> Array:
    """Section 3.1: three sub-layers; without a mask a position sees itself and the past."""
    if mask is None:
        mask = past_only(len(x))
    attended, _ = multi_head_attention(x, x, layer["self_attention"], mask)
    x = layer_norm(x + attended, layer["self_attention_norm"], eps)
    attended, _ = multi_head_attention(x, memory, layer["cross_attention"])
    x = layer_norm(x + attended, layer["cross_attention_norm"], eps)
    return layer_norm(x + feed_forward(x, layer["feed_forward"]), layer["feed_forward_norm"], eps)


def past_only(length: int) -> NDArray[np.bool_]:
    """(T, T), True where the key is not later than the query."""
    mask = np.zeros((length, length), dtype=bool)
    for i in range(length):
        for j in range(i + 1):
            mask[i, j] = True
    return mask


def sinusoid(position: int, d_model: int) -> Array:
    """Section 3.5: PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same)."""
    encoding = np.zeros(d_model)
    for i in range(d_model // 2):
        angle = position / math.pow(10000, 2 * i / d_model)
        encoding[2 * i], encoding[2 * i + 1] = math.sin(angle), math.cos(angle)
    return encoding


def embed(tokens: list[int], matrix: Array) -> Array:
    """Sections 3.4, 3.5: rows of the matrix times sqrt(D), plus the encoding of the position."""
    d_model = matrix.shape[1]
    rows = [
        matrix[token] * math.sqrt(d_model) + sinusoid(position, d_model)
        for position, token in enumerate(tokens)
    ]
    return np.stack(rows)


def transformer(
    source: list[int],
    target: list[int],
    encoder: list[Layer],
    decoder: list[Layer],
    matrix: Array,
    eps: float,
) -> Array:
    """Figure 1 with one shared matrix: logits (T, V) of what follows each target prefix."""
    memory = embed(source, matrix)
    for layer in encoder:
        memory = encoder_layer(memory, layer, eps)
    x = embed(target, matrix)
    for layer in decoder:
        x = decoder_layer(x, memory, layer, eps)
    return x @ matrix.T


def log_softmax(logits: Array) -> Array:
    """(V,) -> (V,)."""
    highest = max(logits)
    return logits - highest - math.log(sum(math.exp(z - highest) for z in logits))


def smoothed_loss(
    logits: Array, target: list[int], epsilon: float, padding: int
) -> tuple[Array, Array]:
    """Section 5.4, (T,) each: cross-entropy with the smoothed target, and -log p(gold).

    The gold token has probability 1 - epsilon, each other one epsilon / (V - 1).
    """
    losses, nlls = np.zeros(len(target)), np.zeros(len(target))
    vocabulary = logits.shape[1]
    for i, gold in enumerate(target):
        if gold == padding:
            continue
        log_p = log_softmax(logits[i])
        for j in range(vocabulary):
            wanted = 1 - epsilon if j == gold else epsilon / (vocabulary - 1)
            losses[i] -= wanted * log_p[j]
        nlls[i] = -log_p[gold]
    return losses, nlls


def learning_rate(step: int, d_model: int, warmup: int) -> float:
    """Eq. 3, two branches: growth before `warmup`, decay after; step counts from 1."""
    scale = 1 / math.sqrt(d_model)
    if step < warmup:
        return scale * step / (warmup * math.sqrt(warmup))
    return scale / math.sqrt(step)


def adam(
    start: Array,
    gradients: list[Array],
    rates: list[float],
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-9,
) -> list[Array]:
    """Kingma and Ba's Algorithm 1: the parameter after each update."""
    theta = start.copy()
    first, second = np.zeros_like(theta), np.zeros_like(theta)
    trajectory = []
    for t, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        first = betas[0] * first + (1 - betas[0]) * gradient
        second = betas[1] * second + (1 - betas[1]) * gradient**2
        unbiased_first = first / (1 - betas[0] ** t)
        unbiased_second = second / (1 - betas[1] ** t)
        theta = theta - rate * unbiased_first / (np.sqrt(unbiased_second) + eps)
        trajectory.append(theta.copy())
    return trajectory
