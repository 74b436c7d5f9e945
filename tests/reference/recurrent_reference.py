"""LSTMs and attention by dot product as loops over vectors, in NumPy float64.

W (4D x inputs), U (4D x D), b (4D): rows of input gate, forget gate, candidate, output gate.
"""

import numpy as np

Weights = dict[str, np.ndarray]
State = list[tuple[np.ndarray, np.ndarray]]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm_cell(x: np.ndarray, h: np.ndarray, c: np.ndarray, weights: Weights):
    """One step: i, f, o gates and candidate g; c' = f c + i g, h' = o tanh(c')."""
    i, f, g, o = np.split(weights["W"] @ x + weights["U"] @ h + weights["b"], 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def lstm(sequence: list[np.ndarray], layers: list[Weights], state: State):
    """A stack over a sequence: outputs of the last layer, and the state of every layer."""
    state, outputs = list(state), []
    for x in sequence:
        for number, weights in enumerate(layers):
            state[number] = lstm_cell(x, *state[number], weights)
            x = state[number][0]
        outputs.append(x)
    return outputs, state


def zeros(layers: list[Weights]) -> State:
    return [(np.zeros(w["U"].shape[1]), np.zeros(w["U"].shape[1])) for w in layers]


def two_way_lstm(sequence: list[np.ndarray], layers: list[tuple[Weights, Weights]]):
    """Each layer reads forwards and backwards; the outputs, and the states side by side."""
    state = []
    for forwards, backwards in layers:
        ahead, ((h, c),) = lstm(sequence, [forwards], zeros([forwards]))
        back, ((h_back, c_back),) = lstm(sequence[::-1], [backwards], zeros([backwards]))
        sequence = [np.concatenate(pair) for pair in zip(ahead, back[::-1], strict=True)]
        state.append((np.concatenate([h, h_back]), np.concatenate([c, c_back])))
    return sequence, state


def dot(state: np.ndarray, h: np.ndarray) -> float:
    """Luong et al. 2015: s . h."""
    return state @ h


def scaled_dot(state: np.ndarray, h: np.ndarray) -> float:
    """Vaswani et al. 2017, Eq. 1: s . h / sqrt(d)."""
    return state @ h / len(h) ** 0.5


def additive(v: np.ndarray, w: np.ndarray, b: np.ndarray, u: np.ndarray):
    """Bahdanau et al. 2014, A.1.2: v . tanh(W s + b + U h), as a function of s and h."""
    return lambda state, h: v @ np.tanh(w @ state + b + u @ h)


def alike(state: np.ndarray, h: np.ndarray) -> float:
    """The mean of all states: no score prefers any."""
    return 0.0


def attend(state: np.ndarray, memory: list[np.ndarray], combine: np.ndarray, score=dot):
    """c = sum_j alpha_j h_j with alpha = softmax(score(s, h_j)); tanh(W [c; s]) and alpha."""
    scores = np.array([score(state, h) for h in memory])
    alpha = np.exp(scores - scores.max())
    alpha /= alpha.sum()
    context = sum(a * h for a, h in zip(alpha, memory, strict=True))
    return np.tanh(combine @ np.concatenate([context, state])), alpha


def seq2seq(source, target, embeddings, projection, encoder, decoder, reverse: bool):
    """Logits (T, V): the decoder begins with the encoder's last state."""
    source_rows, target_rows = embeddings
    read = [source_rows[token] for token in (source[::-1] if reverse else source)]
    _, state = lstm(read, encoder, zeros(encoder))
    outputs, _ = lstm([target_rows[token] for token in target], decoder, state)
    return np.stack([projection @ output for output in outputs])


def two_way_seq2seq(source, target, embeddings, projection, encoder, decoder):
    """Logits (T, V): the decoder begins with the states in which both directions end."""
    source_rows, target_rows = embeddings
    _, state = two_way_lstm([source_rows[token] for token in source], encoder)
    outputs, _ = lstm([target_rows[token] for token in target], decoder, state)
    return np.stack([projection @ output for output in outputs])


def attention_seq2seq(
    source, target, embeddings, projection, encoder, decoder, combine, input_feeding: bool,
    score=dot,
):  # fmt: skip
    """Logits (T, V) and alpha (T, S)."""
    source_rows, target_rows = embeddings
    memory, state = two_way_lstm([source_rows[token] for token in source], encoder)
    fed = np.zeros(combine.shape[0])
    logits, alphas = [], []
    for token in target:
        x = target_rows[token]
        if input_feeding:
            x = np.concatenate([x, fed])
        (output,), state = lstm([x], decoder, state)
        fed, alpha = attend(output, memory, combine, score)
        logits.append(projection @ fed)
        alphas.append(alpha)
    return np.stack(logits), np.stack(alphas)
