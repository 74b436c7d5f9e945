# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Attention Is All You Need, executable
#
# Sections 3 to 5 of [the paper](https://arxiv.org/abs/1706.03762) (Vaswani et al., 2017), with the
# modules of `vaswani_plugin`: each is plain PyTorch, and each equation stands there once. We
# compute the equations by hand and by module, train a model to copy, another one to translate
# numbers from English into German, follow its beam search step by step, and look at its attention.
#
# It takes about a minute on one CPU core, and needs neither fairseq nor a data set.
#
# Letters of axes: B batch, T queries, S keys, D d_model, H heads, K d_k, V d_v or vocabulary.

# %%
import math
import os
import random

import matplotlib.pyplot as plt
import torch
from torch import nn

torch.manual_seed(1)
random.seed(1)
torch.set_num_threads(1)  # such small products gain nothing by more
plt.rcParams |= {"figure.figsize": (4.2, 2.6), "figure.dpi": 80, "image.cmap": "Blues"}


def show(image, x="", y="", **options):
    """Draw a matrix as a small heat map."""
    figure, axes = plt.subplots(**options)
    axes.imshow(image, aspect="auto", interpolation="nearest")
    axes.set(xlabel=x, ylabel=y)
    plt.show()


# %% [markdown]
# ## 3.2.1 Scaled dot-product attention
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{Q K^T}{\sqrt{d_k}}\right) V$$
#
# A query is compared with every key by a dot product. Softmax turns the scores of a query into
# weights, which sum to 1. The result is the weighted mean of the values.
#
# First by hand, one query at a time:

# %%
query = torch.randn(2, 4)  # (T, K)
key, value = torch.randn(3, 4), torch.randn(3, 5)  # (S, K), (S, V)

rows = []
for q in query:
    scores = [float(q @ k) / math.sqrt(len(q)) for k in key]
    weights = [math.exp(score) / sum(map(math.exp, scores)) for score in scores]
    rows.append(sum(weight * v for weight, v in zip(weights, value, strict=True)))
    print("weights:", " ".join(f"{weight:.3f}" for weight in weights))
by_hand = torch.stack(rows)

# %% [markdown]
# Then by the module, all queries in one matrix product:

# %%
from vaswani_plugin.modules.attention import scaled_dot_product_attention

output, weights = scaled_dot_product_attention(query, key, value)
print(weights)
assert torch.allclose(output, by_hand, atol=1e-6)

# %% [markdown]
# **Why divide by $\sqrt{d_k}$?** If the components of q and k are independent with mean 0 and
# variance 1, the variance of $q \cdot k$ is $d_k$. With large scores softmax puts nearly all of
# its weight on one key, and "has extremely small gradients".

# %%
print("  d_k   variance of q.k   largest of 10 weights: plain, scaled")
for d_k in (4, 64, 512):
    q, k = torch.randn(2000, 1, d_k), torch.randn(2000, 10, d_k)
    products = (q * k).sum(-1)
    largest = [float((products * scale).softmax(-1).amax(-1).mean()) for scale in (1, d_k**-0.5)]
    print(f"{d_k:5} {float(products.var()):17.1f} {largest[0]:29.2f}, {largest[1]:.2f}")

# %% [markdown]
# ## 3.2.2 Multi-head attention
#
# $$\mathrm{MultiHead}(Q, K, V) = \mathrm{Concat}(\mathrm{head}_1, \ldots, \mathrm{head}_h) W^O$$
# $$\mathrm{head}_i = \mathrm{Attention}(Q W_i^Q, K W_i^K, V W_i^V)$$
#
# Each head has projections of its own, and so may look for something else. One matrix holds the
# projections of all heads side by side. (The equations have no biases; the numbers of parameters
# that the paper prints include them.)

# %%
from vaswani_plugin.modules.attention import MultiHeadAttention

attention = MultiHeadAttention(d_model=16, heads=4, d_k=4, d_v=4)
x = torch.randn(1, 6, 16)  # (B, T, D)

heads = []
for i in range(4):
    part = slice(4 * i, 4 * (i + 1))  # rows of W^Q, W^K and W^V that belong to head i
    q, k, v = (
        nn.functional.linear(x, w.weight[part], w.bias[part])
        for w in (attention.query, attention.key, attention.value)
    )
    heads.append(scaled_dot_product_attention(q, k, v)[0])
by_hand = attention.output(torch.cat(heads, dim=-1))

output, weights = attention(x, need_weights=True)
print("output", tuple(output.shape), " weights (B, H, T, S)", tuple(weights.shape))
assert torch.allclose(output, by_hand, atol=1e-6)

# %% [markdown]
# ## 3.2.3 The mask
#
# A position of the decoder must not see the positions after it. Their scores are set to minus
# infinity before the softmax. A mask is True (dark) where a query may attend.

# %%
from vaswani_plugin.modules.attention import causal_mask, padding_mask

show(causal_mask(8, 8), "key", "query", figsize=(2.2, 2.2))

# %% [markdown]
# Sentences of a batch are padded to the same length; nobody attends to the padding (here number
# 0).

# %%
print(padding_mask(torch.tensor([[5, 8, 2, 0, 0], [7, 3, 4, 9, 2]]), padding_idx=0)[:, 0, 0].int())

# %% [markdown]
# With the mask of the future, what comes later changes nothing before it:

# %%
changed = x.clone()
changed[:, 4:] += 1
with torch.no_grad():
    before, after = (attention(y, is_causal=True)[0] for y in (x, changed))
print("change of each position:", (after - before).abs().amax(-1)[0])

# %% [markdown]
# ## 3.3 Feed-forward networks, 3.1 residual sub-layers
#
# $$\mathrm{FFN}(x) = \max(0, x W_1 + b_1) W_2 + b_2$$
#
# Each sub-layer ends with $\mathrm{LayerNorm}(x + \mathrm{Dropout}(\mathrm{Sublayer}(x)))$: the
# normalization comes after the sum.

# %%
from vaswani_plugin.modules.layers import AddNorm, FeedForward

feed_forward, add_norm = FeedForward(d_model=16, d_ff=64), AddNorm(d_model=16, dropout=0.1).eval()
w_1, w_2 = feed_forward.w_1, feed_forward.w_2
summed = x + (x @ w_1.weight.T + w_1.bias).clamp(min=0) @ w_2.weight.T + w_2.bias
by_hand = (summed - summed.mean(-1, keepdim=True)) / summed.std(-1, correction=0, keepdim=True)
assert torch.allclose(add_norm(x, feed_forward(x)), by_hand, atol=1e-4)

# %% [markdown]
# ## 3.4 Embeddings and softmax
#
# One matrix embeds the source, embeds the target, and projects to the vocabulary. As embedding it
# is multiplied by $\sqrt{d_{model}}$.

# %%
from vaswani_plugin.modules.embedding import Embedding

embedding = Embedding(vocabulary=10, d_model=16, padding_idx=0)
tokens = torch.tensor([[5, 8, 2]])
assert torch.equal(embedding(tokens), embedding.weight[tokens] * 4)
print("logits", tuple(embedding.project(x).shape))

# %% [markdown]
# ## 3.5 Positions
#
# $$PE_{(pos, 2i)} = \sin(pos / 10000^{2i / d_{model}}),\quad
# PE_{(pos, 2i+1)} = \cos(pos / 10000^{2i / d_{model}})$$
#
# Without them attention doesn't know any order. Each pair of columns turns at its own speed:

# %%
from vaswani_plugin.modules.embedding import sinusoids

table = sinusoids(torch.arange(100), d_model=128)
show(table, "dimension", "position")

# %% [markdown]
# The product of two positions depends on their distance alone, so that "for any fixed offset k,
# $PE_{pos+k}$ can be represented as a linear function of $PE_{pos}$":

# %%
products = table @ table.T / 64
show(products, "position", "position", figsize=(2.6, 2.4))
assert torch.allclose(products.diagonal(10), products.diagonal(10)[0].expand(90))

# %% [markdown]
# ## 3.1 The whole model
#
# Figure 1 with the sizes of Table 3's first line. With the 40,960 rows that the authors' code
# gives the shared matrix, it has the 65 million parameters that the paper prints. (PyTorch's
# device `meta` counts without storing.)

# %%
from vaswani_plugin import Transformer

with torch.device("meta"):
    base = Transformer(source_vocabulary=40_960, target_vocabulary=40_960, padding_idx=0)
print(f"{sum(p.numel() for p in base.parameters()):,}")

# %% [markdown]
# ## 4 Why self-attention
#
# Table 1, for a sentence of 30 tokens and a width of 512, with a kernel of 3 and a neighbourhood
# of 8. (The convolution's path is that of dilated kernels; with contiguous ones, as in ConvS2S, it
# is n / k.)

# %%
from vaswani_plugin.metrics.complexity import table_1

print(f"{'layer':30}{'operations':>12}{'in sequence':>13}{'longest path':>14}")
for row in table_1(n=30, d=512, k=3, r=8):
    print(
        f"{row.layer:30}{row.operations:12,}{row.sequential_operations:13}{row.path_length:14.1f}"
    )

# %% [markdown]
# ## 5.3 The learning rate
#
# $$lrate = d_{model}^{-0.5} \cdot \min(step^{-0.5},\ step \cdot warmup\_steps^{-1.5})$$

# %%
from vaswani_plugin.modules.schedule import learning_rate

steps = range(1, 20_000, 50)
for d_model, warmup in ((512, 4000), (512, 8000), (1024, 4000)):
    rates = [learning_rate(step, d_model, warmup) for step in steps]
    plt.plot(steps, rates, label=f"d_model {d_model}, warm-up {warmup:,}")
plt.legend(fontsize=8)
plt.xlabel("step")
plt.show()

# %% [markdown]
# ## 5.4 Label smoothing
#
# The gold token gets probability $1 - \epsilon$, and each of the other V - 1 tokens $\epsilon / (V
# - 1)$, as in the authors' code. The loss is the cross-entropy with this distribution. It "hurts
# perplexity, as the model learns to be more unsure": past a point, more confidence costs.

# %%
from vaswani_plugin.modules.loss import label_smoothed_cross_entropy, smoothing_weights

gold, other = smoothing_weights(0.1, vocabulary=5)
print(f"gold {gold}, each other {other:.3f}")

confidence = torch.linspace(0, 12, 100)  # the logit of the gold token; the others are 0
logits = torch.stack((confidence, *torch.zeros(4, 100)), dim=1)
target = torch.zeros(100, dtype=torch.long)
by_hand = -(logits.log_softmax(-1) * torch.tensor([gold] + [other] * 4)).sum(-1)
for epsilon in (0.0, 0.1):
    loss, _ = label_smoothed_cross_entropy(logits, target, epsilon, padding_idx=-1)
    plt.plot(logits.softmax(-1)[:, 0], loss, label=f"label smoothing {epsilon}")
assert torch.allclose(loss, by_hand, atol=1e-5)
plt.legend(fontsize=8)
plt.xlabel("probability of the gold token")
plt.show()

# %% [markdown]
# ## 5 Training: copy
#
# A small model of the same architecture, with the paper's optimizer, rate and loss. It reads
# random symbols and has to write the same ones. As in fairseq, number 0 is the start, 1 the
# padding and 2 the end.

# %%
from vaswani_plugin.modules.cache import Cache

START, PAD, END, FIRST = 0, 1, 2, 4
UPDATES = int(os.environ.get("UPDATES", 500))  # with fewer the code runs, but the models learn less


def train(model, make_batch, updates, d_model=64, warmup=100):
    """Train on batches of (source, target), both (B, T) and padded on the right."""
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    model.train()
    for update in range(1, updates + 1):
        source, target = make_batch(64)
        shifted = torch.cat((torch.full_like(target[:, :1], START), target[:, :-1]), dim=1)
        logits = model(source, shifted).flatten(0, 1)
        loss, nll = label_smoothed_cross_entropy(logits, target.flatten(), 0.1, PAD)
        real = target.ne(PAD).sum()
        optimizer.param_groups[0]["lr"] = learning_rate(update, d_model, warmup)
        optimizer.zero_grad()
        (loss.sum() / real).backward()
        optimizer.step()
        if update % 100 == 0 or update == updates:
            print(f"update {update}: perplexity {float((nll.sum() / real).exp()):.2f}")
    model.eval()


@torch.no_grad()
def write_greedily(model, source, most):
    """Take the likeliest token at each position; the cache keeps what was computed before."""
    memory, cache = model.encode(source), Cache()
    output = torch.full((len(source), 1), START)
    for _ in range(most):
        features = model.decode(output, memory, cache).features
        token = model.decoder.project(features[:, -1:]).argmax(-1)
        output = torch.cat((output, token), dim=1)
    return output[:, 1:]


# %%
SYMBOLS = 30


def random_symbols(sentences):
    batch = torch.randint(FIRST, SYMBOLS, (sentences, 11))
    ends, places = torch.randint(1, 11, (sentences, 1)), torch.arange(11)
    batch = batch.masked_fill(places == ends, END).masked_fill(places > ends, PAD)
    return batch, batch


copier = Transformer(SYMBOLS, SYMBOLS, PAD, layers=2, d_model=64, d_ff=128, heads=4)
train(copier, random_symbols, UPDATES)
source, _ = random_symbols(200)
written = write_greedily(copier, source, 11)
right = (written.eq(source) | source.eq(PAD)).all(dim=1)
print(f"copied without a mistake: {int(right.sum())} of {len(source)}")

# %% [markdown]
# ## A translation with another order of words
#
# English says "forty two", German "zwei und vierzig": the units come before the tens. To translate
# such numbers, the decoder has to look at its source in another order.

# %%
ENGLISH = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
    fifteen sixteen seventeen eighteen nineteen""".split()
ENGLISH_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
GERMAN = """null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn
    fünfzehn sechzehn siebzehn achtzehn neunzehn""".split()
GERMAN_TENS = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def english(n):
    for size, name in ((1000, "thousand"), (100, "hundred")):
        if n >= size:
            return [*english(n // size), name, *(english(n % size) if n % size else [])]
    if n < 20:
        return [ENGLISH[n]]
    return [ENGLISH_TENS[n // 10], *(english(n % 10) if n % 10 else [])]


def german(n):
    for size, name in ((1000, "tausend"), (100, "hundert")):
        if n >= size:
            return [*german(n // size), name, *(german(n % size) if n % size else [])]
    if n < 20:
        return [GERMAN[n]]
    return [*((GERMAN[n % 10], "und") if n % 10 else ()), GERMAN_TENS[n // 10]]


print(" ".join(english(42_321)), "=", " ".join(german(42_321)))

# %% [markdown]
# Both languages share one dictionary, and so one matrix:

# %%
from vaswani_plugin.text.dictionary import Dictionary

words = [*ENGLISH, *ENGLISH_TENS[2:], "hundred", "thousand"]
words += [*GERMAN, *GERMAN_TENS[2:], "und", "hundert", "tausend"]
dictionary = Dictionary(words)


def rows(sentences):
    """Words -> (B, T), padded on the right."""
    coded = [torch.tensor([*map(dictionary.index, words), END]) for words in sentences]
    return nn.utils.rnn.pad_sequence(coded, batch_first=True, padding_value=PAD)


def words_of(row):
    """Words before the end."""
    numbers = row.tolist()
    return [dictionary[n] for n in numbers[: numbers.index(END) if END in numbers else None]]


def random_numbers(sentences):
    numbers = [random.randrange(10 ** random.randint(1, 6)) for _ in range(sentences)]
    return rows(map(english, numbers)), rows(map(german, numbers))


size = len(dictionary)
translator = Transformer(size, size, PAD, layers=2, d_model=64, d_ff=256, heads=4)
train(translator, random_numbers, 2 * UPDATES)

# %%
tests = random.sample(range(1_000_000), 200)
written = write_greedily(translator, rows(map(english, tests)), 20)
right = sum(words_of(row) == german(n) for row, n in zip(written, tests, strict=True))
print(f"numbers below a million without a mistake: {right} of {len(tests)}")

# %% [markdown]
# ## 6.1 Beam search, step by step
#
# Not only the likeliest word is kept at each step, but the four likeliest beginnings. A hypothesis
# that ends gets the score $\log P(Y|X) / lp(Y)$ with $lp(Y) = ((5 + |Y|) / 6)^\alpha$: "We used
# beam search with a beam size of 4 and length penalty $\alpha = 0.6$". The search ends when no
# open hypothesis can come among the best four any more. Beginnings and their log P:

# %%
from vaswani_plugin.search.options import length_penalty


@torch.no_grad()
def beam_search(model, source, beam=4, alpha=0.6, most=20):
    memory = model.encode(source)
    alive, finished = [([START], 0.0)], []
    for step in range(1, most + 1):
        prefixes = torch.tensor([tokens for tokens, _ in alive])
        of_each = memory.select(torch.zeros(len(alive), dtype=torch.long))
        features = model.decode(prefixes, of_each).features[:, -1]
        log_p = model.decoder.project(features).log_softmax(-1)
        log_p[:, PAD] = -math.inf
        found = [
            ([*tokens, token], so_far + float(log_p[n, token]))
            for n, (tokens, so_far) in enumerate(alive)
            for token in log_p[n].topk(2 * beam).indices.tolist()
        ]
        found = sorted(found, key=lambda one: -one[1])[: 2 * beam]
        ended = [one for one in found if one[0][-1] == END]
        finished += [(t, p / length_penalty(len(t) - 1, alpha)) for t, p in ended]
        finished = sorted(finished, key=lambda one: -one[1])[:beam]
        alive = [one for one in found if one[0][-1] != END][:beam]
        yield step, alive, finished
        best_reachable = alive[0][1] / length_penalty(most + 1, alpha)
        if len(finished) == beam and best_reachable < finished[-1][1]:
            return


def show_hypotheses(title, hypotheses):
    print(title)
    for tokens, score in hypotheses:
        print(f"  {score:6.2f}  {dictionary.string(tokens)}")


source = rows([english(921)])
for step, alive, finished in beam_search(translator, source):  # noqa: B007
    if step <= 5:
        show_hypotheses(f"step {step}", alive)
show_hypotheses(f"finished after {step} steps, score", finished)

# %% [markdown]
# `vaswani_plugin.search` finds the same. It searches for whole batches, and keeps what it has
# computed:

# %%
from vaswani_plugin.search.models import TransformerModel
from vaswani_plugin.search.options import SearchOptions
from vaswani_plugin.search.search import Search

search = Search(
    [TransformerModel(translator)], dictionary, SearchOptions(max_len_a=0, max_len_b=20)
)
best = search.run(source, start=START)[0]
show_hypotheses("Search", [(found.tokens.tolist(), found.score) for found in best])
assert best[0].tokens.tolist() == finished[0][0][1:]

# %% [markdown]
# ## What the heads look at
#
# The weights of the last layer's attention from decoder to encoder, the mean of its heads. Each
# German word looks at its English one: "zwei" at the end of the source, "vierzig" before it.

# %%
from vaswani_plugin.inference.attention import Attention, RawAttention


@torch.no_grad()
def attention_of(model, source_words, target_words):
    source, target = rows([source_words]), rows([target_words])
    encoded = model.encoder(source, need_weights=True)
    read = torch.cat((torch.tensor([[START]]), target[:, :-1]), dim=1)
    decoded = model.decoder(read, encoded.features, need_weights=True)
    weights = {"encoder": encoded.self_weights, "decoder": decoded.self_weights}
    weights["cross"] = decoded.cross_weights
    stacked = {kind: torch.cat(found).numpy() for kind, found in weights.items()}  # (N, H, T, S)
    texts = " ".join(source_words), " ".join(target_words)
    return Attention.of(*texts, (source_words, target_words), RawAttention(stacked, (0, 0)))


found = attention_of(translator, english(385_742), german(385_742))
cross = found.kinds["cross"]
plt.imshow(cross.weights[-1].mean(axis=0))
plt.xticks(range(len(cross.keys)), cross.keys, rotation=90)
plt.yticks(range(len(cross.queries)), cross.queries)
plt.show()

# %% [markdown]
# Every layer and head, to explore with the mouse. (Where you see nothing, the viewer has removed
# the script: run the notebook.)

# %%
from vaswani_plugin.figures.attention_page import Explorer

Explorer(found)

# %% [markdown]
# ## From here
#
# A trained bundle, such as `work/quickstart/model` of `bash recipes/quickstart.sh`, does all this
# with raw text. With its folder in `VASWANI_BUNDLE` the last cell translates by it.

# %%
from vaswani_plugin import Translator

bundle = os.environ.get("VASWANI_BUNDLE")
if bundle:
    for one in Translator.from_pretrained(bundle).translate("The dog is old.", nbest=3).hypotheses:
        print(f"{one.score:6.2f}  {one.text}")
