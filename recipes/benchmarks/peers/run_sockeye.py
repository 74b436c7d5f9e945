"""Sockeye: its command for training and its translator. It is no longer developed."""

import sys
from pathlib import Path

from job import Job, Translate, Watch, run_jobs, words_of


def flags(job: Job) -> list[str]:
    """Arguments of sockeye-train."""
    size, text = job["size"], job["text"]
    model = str(Path(job["work"]) / job["name"])
    vocabulary = str(Path(job["work"]) / "vocabulary.json")
    found = ["--source", text["train"][0], "--target", text["train"][1]]
    found += ["--validation-source", text["valid"][0], "--validation-target", text["valid"][1]]
    found += ["--source-vocab", vocabulary, "--target-vocab", vocabulary, "--shared-vocab"]
    found += ["--output", model, "--overwrite-output", "--use-cpu", "--quiet"]
    found += ["--encoder", "transformer", "--decoder", "transformer"]
    found += ["--num-layers", f"{size['encoder_layers']}:{size['decoder_layers']}"]
    found += ["--transformer-model-size", str(size["d_model"])]
    found += ["--transformer-attention-heads", str(size["heads"])]
    found += ["--transformer-feed-forward-num-hidden", str(size["d_ff"])]
    found += ["--transformer-activation-type", "relu"]
    found += ["--transformer-positional-embedding-type", "fixed"]
    found += ["--transformer-preprocess", "", "--transformer-postprocess", "drn"]
    found += ["--transformer-dropout-prepost", str(size["dropout"])]
    found += ["--transformer-dropout-attention", "0", "--transformer-dropout-act", "0"]
    found += ["--embed-dropout", str(size["dropout"]), "--weight-tying-type", "src_trg_softmax"]
    found += ["--label-smoothing", "0.1", "--batch-type", "max-word"]
    found += ["--batch-size", str(job["max_tokens"]), "--batch-sentences-multiple-of", "1"]
    found += ["--optimizer", "adam", "--optimizer-betas", "0.9:0.98", "--optimizer-eps", "1e-9"]
    found += ["--gradient-clipping-type", "none", "--seed", str(job["seed"])]
    # Its rate is the initial one over the root of the update: the peak times the warm-up's root.
    rate = job["peak_lr"] * job["warmup_updates"] ** 0.5
    found += ["--learning-rate-scheduler-type", "inv-sqrt-decay"]
    found += ["--initial-learning-rate", repr(rate)]
    found += ["--learning-rate-warmup", str(job["warmup_updates"])]
    never = "1000000000"
    found += ["--checkpoint-interval", never, "--max-updates", never]
    return [*found, "--max-seq-len", "200"]


def write_vocabulary(job: Job) -> None:
    """The shared vocabulary, with Sockeye's special symbols first."""
    from sockeye import constants, vocab

    Path(job["work"]).mkdir(parents=True, exist_ok=True)
    symbols = [*constants.VOCAB_SYMBOLS, *words_of(job["dictionary"])]
    ids = {word: number for number, word in enumerate(symbols)}
    vocab.vocab_to_json(ids, str(Path(job["work"]) / "vocabulary.json"))


def train(job: Job, watch: Watch) -> None:
    """sockeye-train."""
    from sockeye import train as command
    from sockeye import training

    step, fit = training.EarlyStoppingTrainer._step, training.EarlyStoppingTrainer.fit

    def watched(self, batch):
        watch.count(int(batch.labels["target_label"].ne(0).sum()))
        return step(self, batch)

    def kept(self, train_iter, validation_iter, *args, **kwargs):
        watch.at_end = lambda: finish(job, self, validation_iter)
        return fit(self, train_iter, validation_iter, *args, **kwargs)

    training.EarlyStoppingTrainer._step = watched
    training.EarlyStoppingTrainer.fit = kept
    write_vocabulary(job)
    watch.watch_optimizers()
    sys.argv = ["sockeye-train", *flags(job)]
    command.main()


def finish(job: Job, trainer, validation_iter) -> tuple[float, int]:
    """Save the model; the validation set's negative log-likelihood in nats, and its tokens."""
    import torch

    trainer.sockeye_model.save_parameters(str(Path(job["work"]) / job["name"] / "params.best"))
    model, loss, tokens = trainer.sockeye_model.eval(), 0.0, 0
    validation_iter.reset()
    with torch.no_grad():
        while validation_iter.iter_next():
            batch = validation_iter.next().load(device=torch.device("cpu"))
            inputs = batch.source, batch.source_length, batch.target, batch.target_length
            scores = model(*inputs)["logits"].flatten(0, 1)
            target = batch.labels["target_label"].flatten().long()
            loss += float(
                torch.nn.functional.cross_entropy(scores, target, ignore_index=0, reduction="sum")
            )
            tokens += int(target.ne(0).sum())
    return loss, tokens


def load(job: Job) -> Translate:
    """Its translator, with the defaults of sockeye-translate but for beam and penalty."""
    import torch
    from sockeye import inference
    from sockeye.model import load_models

    device = torch.device("cpu")
    models, sources, targets = load_models(
        device=device, model_folders=[job["model"]], inference_only=True
    )
    scorer = inference.CandidateScorer(length_penalty_alpha=job["length_penalty"])
    translator = inference.Translator(
        device=device,
        ensemble_mode="linear",
        scorer=scorer,
        batch_size=1 if job["one"] else job["decode_sentences"],
        beam_size=job["beam"],
        beam_search_stop="all",
        nbest_size=1,
        models=models,
        source_vocabs=sources,
        target_vocabs=targets,
    )

    def translate(lines: list[str]) -> list[str]:
        make = inference.make_input_from_plain_string
        inputs = [make(number, line) for number, line in enumerate(lines)]
        return [output.translation for output in translator.translate(inputs)]

    return translate


if __name__ == "__main__":
    run_jobs(load, train)
