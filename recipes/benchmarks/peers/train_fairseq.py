"""fairseq-train: its own `transformer`, or ours with the plugin, by the flags of the job."""

import sys

import stock
from watch import Job, Watch, run


def train(job: Job, watch: Watch) -> None:
    """Count what fairseq's trainer is given."""
    import torch
    from fairseq.trainer import Trainer
    from fairseq_cli import train as command

    if job["stock"]:
        stock.complete()
    step = Trainer.train_step

    def counted(self, samples, *args, **kwargs):
        for sample in filter(None, samples):  # a worker without a batch has a dummy
            source = int(sample["net_input"]["src_lengths"].sum())
            watch.count(target=sample["ntokens"], source=source, sentences=sample["nsentences"])
        logged = step(self, samples, *args, **kwargs)
        watch.count(loss=float((logged or {}).get("loss", "nan")))
        watch.update()
        return logged

    Trainer.train_step = counted
    torch.cuda.reset_peak_memory_stats = lambda *_: None  # fairseq does, after every update
    sys.argv = ["fairseq-train", *job["flags"]]
    command.cli_main()


if __name__ == "__main__":
    run(train)
