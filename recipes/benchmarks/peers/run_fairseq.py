"""fairseq's commands in one process: its own `transformer`, and the training of our models.

`flags` of the job are fairseq-train's: peers_jobs.py chooses between stock and ours by them.
Decoding is that of fairseq's own models, as in fairseq-interactive.
"""

import math
import sys
from argparse import Namespace
from pathlib import Path

from job import Job, Translate, Watch, run_jobs


def train(job: Job, watch: Watch) -> None:
    """fairseq-train with the flags of the job."""
    from fairseq import trainer
    from fairseq_cli import train as command

    train_step = trainer.Trainer.train_step

    def watched(self, samples, *args, **kwargs):
        watch.at_end = lambda: finish(job, self)
        logged = train_step(self, samples, *args, **kwargs)
        watch.count(sum(sample["ntokens"] for sample in samples if sample))
        watch.update()
        return logged

    trainer.Trainer.train_step = watched
    sys.argv = ["fairseq-train", *job["flags"]]
    command.cli_main()


def finish(job: Job, trainer) -> tuple[float, int]:
    """Save the checkpoint; the validation set's negative log-likelihood in nats, and its tokens."""
    import torch

    Path(job["model"]).parent.mkdir(parents=True, exist_ok=True)
    trainer.consolidate_optimizer()
    trainer.save_checkpoint(job["model"], {"train_iterator": {"epoch": 1}})
    task, model = trainer.task, trainer.model.eval()
    task.load_dataset("valid")
    pad, loss, tokens = task.target_dictionary.pad(), 0.0, 0
    batches = task.get_batch_iterator(
        task.dataset("valid"), max_tokens=job["max_tokens"], required_batch_size_multiple=1
    )
    with torch.no_grad():
        for sample in batches.next_epoch_itr(shuffle=False):
            output = model(**sample["net_input"])
            scores = model.get_normalized_probs(output, log_probs=True).flatten(0, 1)
            target = sample["target"].flatten()
            loss += float(
                torch.nn.functional.nll_loss(scores, target, ignore_index=pad, reduction="sum")
            )
            tokens += int(target.ne(pad).sum())
    return loss, tokens


def load(job: Job) -> Translate:
    """fairseq's generator and a checkpoint of a stock model."""
    import torch
    from fairseq import checkpoint_utils

    changes = {"data": job["data_bin"]}
    models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([job["model"]], changes)
    for model in models:
        model.eval()
        model.prepare_for_inference_(cfg)
    wanted = Namespace(beam=job["beam"], lenpen=job["length_penalty"], max_len_a=1, max_len_b=50)
    generator = task.build_generator(models, wanted)

    def translate(lines: list[str]) -> list[str]:
        encode = task.source_dictionary.encode_line
        tokens = [encode(line, add_if_not_exist=False).long() for line in lines]
        dataset = task.build_dataset_for_inference(tokens, [len(row) for row in tokens])
        found = [""] * len(lines)
        batches = task.get_batch_iterator(
            dataset,
            max_tokens=job["decode_tokens"],
            max_positions=(math.inf, math.inf),
            required_batch_size_multiple=1,
        )
        for sample in batches.next_epoch_itr(shuffle=False):
            with torch.no_grad():
                hypotheses = task.inference_step(generator, models, sample)
            for number, best in zip(sample["id"].tolist(), hypotheses, strict=True):
                found[number] = task.target_dictionary.string(best[0]["tokens"])
        return found

    return translate


if __name__ == "__main__":
    run_jobs(load, train)
