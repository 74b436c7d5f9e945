"""Hugging Face transformers: MarianMT in a plain loop (its Trainer has no batches by tokens)."""

import random

from watch import Job, Watch, read_lines, run, words_of

PAD, END, UNKNOWN = 1, 2, 3


def train(job: Job, watch: Watch) -> None:
    """The model's weights begin as Marian's do, from N(0, 0.02)."""
    import torch
    from torch.nn.utils.rnn import pad_sequence
    from transformers import MarianConfig, MarianMTModel

    size, ids = job["size"], {word: n for n, word in enumerate(words_of(job), 4)}
    common = {"layers": size["layers"], "ffn_dim": size["d_ff"], "attention_heads": size["heads"]}
    sides = {f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in common.items()}
    sides |= {"vocab_size": 4 + len(ids), "d_model": size["d_model"], "dropout": size["dropout"]}
    sides |= {"activation_function": "relu", "scale_embedding": True, "attention_dropout": 0.0}
    symbols = {"pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": END}
    symbols |= {"bos_token_id": 0, "forced_eos_token_id": None}
    model = MarianMTModel(MarianConfig(**sides, **symbols)).train()
    adam = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)
    words = [[[ids.get(w, UNKNOWN) for w in x.split()] for x in read_lines(p)] for p in job["text"]]
    pairs = sorted(zip(*words, strict=True), key=lambda pair: max(map(len, pair)))
    groups: list[list] = [[]]
    for pair in pairs:
        if (len(groups[-1]) + 1) * (max(map(len, pair)) + 1) > job["max_tokens"]:
            groups.append([])
        groups[-1].append([torch.tensor([*side, END]) for side in pair])
    random.Random(1).shuffle(groups)
    for group in groups * 1000:
        x, y = (pad_sequence(list(side), True, PAD) for side in zip(*group, strict=True))
        before = torch.cat([y.new_full((len(y), 1), END), y[:, :-1]], 1)
        scores = model(x, x.ne(PAD), decoder_input_ids=before, use_cache=False).logits.flatten(0, 1)
        smooth = {"label_smoothing": 0.1, "ignore_index": PAD}
        torch.nn.functional.cross_entropy(scores, y.flatten(), **smooth).backward()
        watch.count(target=int(y.ne(PAD).sum()))
        adam.step()
        adam.zero_grad()
        watch.update()


if __name__ == "__main__":
    run(train)
