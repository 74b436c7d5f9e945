"""Hugging Face transformers: its MarianMT, which is the paper's Transformer, in a plain loop.

Its own Trainer counts batches in sentences and knows no schedule by Eq. 3, so the loop is PyTorch's
usual one; the batches hold sentences of like length.
"""

import itertools
from pathlib import Path
from typing import Any

from job import (
    SPECIAL,
    Job,
    Translate,
    Watch,
    batches,
    encode,
    endless_batches,
    ids_of,
    read_lines,
    run_jobs,
)

PAD, END = SPECIAL.index("<pad>"), SPECIAL.index("</s>")


def configuration(job: Job, rows: int) -> dict[str, Any]:
    """Arguments of MarianConfig.

    Args:
        job: with `size`.
        rows: of the shared embedding matrix.
    """
    size = job["size"]
    both: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        both[f"{side}_layers"] = size[f"{side}_layers"]
        both[f"{side}_ffn_dim"] = size["d_ff"]
        both[f"{side}_attention_heads"] = size["heads"]
    return both | {
        "vocab_size": rows,
        "d_model": size["d_model"],
        "dropout": size["dropout"],
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "activation_function": "relu",
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "max_position_embeddings": 1024,
        "pad_token_id": PAD,
        "eos_token_id": END,
        "bos_token_id": SPECIAL.index("<s>"),
        "forced_eos_token_id": None,
        "decoder_start_token_id": END,
    }


def pad(rows: list[list[int]]):
    """A tensor (rows, longest row) of ids."""
    import torch

    tensors = [torch.tensor(row) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)


def logits(model, sources: list[list[int]], targets: list[list[int]]):
    """Logits (B, T, V) of the targets, and the targets (B, T)."""
    source, target = pad(sources), pad(targets)
    inputs = pad([[END, *row[:-1]] for row in targets])
    mask = source.ne(PAD)
    output = model(input_ids=source, attention_mask=mask, decoder_input_ids=inputs, use_cache=False)
    return output.logits, target


def read_split(job: Job, split: str, ids: dict[str, int]) -> list[list[list[int]]]:
    return [encode(read_lines(path), ids) for path in job["text"][split]]


def longer(sides: list[list[list[int]]]) -> list[int]:
    return [max(map(len, pair)) for pair in zip(*sides, strict=True)]


def train(job: Job, watch: Watch) -> None:
    """Adam, Eq. 3 and label smoothing around the model."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(job["seed"])
    ids = ids_of(job["dictionary"])
    sides = read_split(job, "train", ids)
    model = MarianMTModel(MarianConfig(**configuration(job, len(ids)))).train()
    watch.at_end = lambda: finish(job, model, ids)
    watch.watch_optimizers()
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    warm, peak = job["warmup_updates"], job["peak_lr"]
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: peak * min((n + 1) / warm, (warm / (n + 1)) ** 0.5)
    )
    for batch in endless_batches(longer(sides), job["max_tokens"], job["seed"]):
        scores, target = logits(model, *([side[n] for n in batch] for side in sides))
        loss = torch.nn.functional.cross_entropy(
            scores.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=0.1
        )
        loss.backward()
        watch.count(int(target.ne(PAD).sum()))
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()


def finish(job: Job, model, ids: dict[str, int]) -> tuple[float, int]:
    """Save the model; the validation set's negative log-likelihood in nats, and its tokens."""
    import torch

    model.eval().save_pretrained(job["model"])
    sides, loss, tokens = read_split(job, "valid", ids), 0.0, 0
    with torch.no_grad():
        for batch in batches(longer(sides), job["max_tokens"]):
            scores, target = logits(model, *([side[n] for n in batch] for side in sides))
            loss += float(
                torch.nn.functional.cross_entropy(
                    scores.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="sum"
                )
            )
            tokens += int(target.ne(PAD).sum())
    return loss, tokens


def load(job: Job) -> Translate:
    """`generate` of the saved model."""
    import torch
    from transformers import MarianMTModel

    model = MarianMTModel.from_pretrained(Path(job["model"])).eval()
    ids = ids_of(job["dictionary"])
    words = list(ids)

    def translate(lines: list[str]) -> list[str]:
        rows, found = encode(lines, ids), [""] * len(lines)
        for batch in batches([len(row) for row in rows], job["decode_tokens"]):
            source = pad([rows[n] for n in batch])
            with torch.no_grad():
                output = model.generate(
                    input_ids=source,
                    attention_mask=source.ne(PAD),
                    num_beams=job["beam"],
                    length_penalty=job["length_penalty"],
                    max_length=source.size(1) + 50,
                    do_sample=False,
                )
            for number, row in zip(batch, output[:, 1:].tolist(), strict=True):
                kept = itertools.takewhile(lambda n: n not in (END, PAD), row)
                found[number] = " ".join(words[n] for n in kept)
        return found

    return translate


if __name__ == "__main__":
    run_jobs(load, train)
