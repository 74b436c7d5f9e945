"""Sockeye: its command for training. It is no longer developed."""

import json
import sys
from pathlib import Path

from watch import Job, Watch, run, words_of


def train(job: Job, watch: Watch) -> None:
    """sockeye-train."""
    from sockeye import constants, training
    from sockeye import train as command

    size, work, (source, target) = job["size"], Path(job["work"]), job["text"]
    symbols = [*constants.VOCAB_SYMBOLS, *words_of(job)]
    vocabulary = {word: number for number, word in enumerate(symbols)}
    (work / "vocabulary.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    flags = f"""--overwrite-output --use-cpu --quiet --shared-vocab --seed 1
        --encoder transformer --decoder transformer --num-layers {size["layers"]}:{size["layers"]}
        --transformer-model-size {size["d_model"]} --transformer-attention-heads {size["heads"]}
        --transformer-feed-forward-num-hidden {size["d_ff"]} --transformer-activation-type relu
        --transformer-positional-embedding-type fixed --transformer-postprocess drn
        --transformer-dropout-prepost {size["dropout"]} --transformer-dropout-attention 0
        --transformer-dropout-act 0 --embed-dropout {size["dropout"]}
        --weight-tying-type src_trg_softmax --label-smoothing 0.1 --batch-type max-word
        --batch-size {job["max_tokens"]} --batch-sentences-multiple-of 1 --max-seq-len 200
        --optimizer adam --optimizer-betas 0.9:0.98 --optimizer-eps 1e-9
        --gradient-clipping-type none --learning-rate-scheduler-type none
        --initial-learning-rate 1e-4 --checkpoint-interval 1000000000 --max-updates 1000000000
        """.split()
    flags += ["--transformer-preprocess", "", "--output", str(work / "model")]
    flags += ["--source", source, "--target", target]
    flags += ["--validation-source", source, "--validation-target", target]
    for side in ("source", "target"):
        flags += [f"--{side}-vocab", str(work / "vocabulary.json")]
    step = training.EarlyStoppingTrainer._step

    def counted(self, batch):
        watch.count(target=int(batch.labels["target_label"].ne(0).sum()))
        return step(self, batch)

    training.EarlyStoppingTrainer._step = counted
    watch.follow_optimizers()
    sys.argv = ["sockeye-train", *flags]
    command.main()


if __name__ == "__main__":
    run(train)
