"""JoeyNMT: its trainer and its prediction, with a configuration file made from the job."""

from pathlib import Path
from typing import Any

from job import Job, Translate, Watch, run_jobs, words_of


def configuration(job: Job) -> dict[str, Any]:
    """JoeyNMT's configuration."""
    size, work = job["size"], Path(job["work"])
    languages = [Path(path).suffix[1:] for path in job["text"]["train"]]
    corpora = {split: str(Path(paths[0]).with_suffix("")) for split, paths in job["text"].items()}
    side = {"max_length": 1000, "lowercase": False, "level": "word"}
    side |= {"voc_file": str(work / "vocabulary.txt")}

    def half(layers: int) -> dict[str, Any]:
        return {
            "type": "transformer",
            "num_layers": layers,
            "num_heads": size["heads"],
            "embeddings": {"embedding_dim": size["d_model"], "scale": True, "dropout": 0.0},
            "hidden_size": size["d_model"],
            "ff_size": size["d_ff"],
            "dropout": size["dropout"],
            "layer_norm": "post",
            "activation": "relu",
        }

    never = 1_000_000_000
    return {
        "name": "peer",
        "joeynmt_version": "2.3.0",
        "model_dir": str(work / job["name"]),
        "use_cuda": False,
        "random_seed": job["seed"],
        "data": {
            "train": corpora["train"],
            "dev": corpora["valid"],
            "dataset_type": "plain",
            "src": {"lang": languages[0], **side},
            "trg": {"lang": languages[1], **side},
        },
        "testing": {
            "load_model": job["model"] if job["kind"] == "decode" else None,
            "beam_size": job.get("beam", 1),
            "beam_alpha": job.get("length_penalty", -1),
            "batch_size": job.get("decode_tokens", job.get("max_tokens")),
            "batch_type": "token",
            "max_output_length": 150,
        },
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "scheduling": "noam",
            "learning_rate": job.get("peak_lr", 1e-3),
            "learning_rate_factor": job.get("lr_factor", 1.0),
            "learning_rate_warmup": job.get("warmup_updates", 1),
            "learning_rate_min": 0.0,
            "normalization": "tokens",
            "label_smoothing": 0.1,
            "batch_size": job.get("max_tokens", 1),
            "batch_type": "token",
            "epochs": never,
            "validation_freq": never,
            "logging_freq": 100,
            "print_valid_sents": [],
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "bias_initializer": "zeros",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": half(size["encoder_layers"]),
            "decoder": half(size["decoder_layers"]),
        },
    }


def write_vocabulary(job: Job) -> None:
    """The shared vocabulary, a word a line; JoeyNMT adds its special symbols."""
    folder = Path(job["work"])
    (folder / job["name"]).mkdir(parents=True, exist_ok=True)
    text = "".join(f"{word}\n" for word in words_of(job["dictionary"]))
    (folder / "vocabulary.txt").write_text(text, encoding="utf-8")


def train(job: Job, watch: Watch) -> None:
    """Its TrainManager, without validations; its `finally` saves the model."""
    from joeynmt import training

    step = training.TrainManager._train_step
    validate = training.TrainManager.train_and_validate

    def watched(self, batch):
        watch.count(int(batch.ntokens))
        return step(self, batch)

    def kept(self, train_data, valid_data):
        watch.at_end = lambda: validation(job, self.model, valid_data)
        validate(self, train_data, valid_data)

    training.TrainManager._train_step = watched
    training.TrainManager.train_and_validate = kept
    write_vocabulary(job)
    watch.watch_optimizers()
    training.train(0, 0, configuration(job), skip_test=True)


def validation(job: Job, model, data) -> tuple[float, int]:
    """The validation set's negative log-likelihood in nats, without smoothing, and its tokens."""
    import torch

    latest = Path(job["work"]) / job["name"] / "latest.ckpt"
    Path(job["model"]).unlink(missing_ok=True)
    Path(job["model"]).hardlink_to(latest.resolve())
    model.eval()
    model.loss_function = ("crossentropy", 0.0)
    loss, tokens = 0.0, 0
    batches = data.make_iter(
        batch_size=job["max_tokens"],
        batch_type="token",
        shuffle=False,
        device=torch.device("cpu"),
        eos_index=model.eos_index,
        pad_index=model.pad_index,
    )
    with torch.no_grad():
        for batch in batches:
            batch.sort_by_src_length()
            loss += float(model(return_type="loss", **vars(batch))[0])
            tokens += int(batch.ntokens)
    return loss, tokens


def load(job: Job) -> Translate:
    """Its prediction on a stream of lines, as `joeynmt translate` does."""
    from joeynmt.config import parse_global_args
    from joeynmt.prediction import predict, prepare

    write_vocabulary(job)
    args = parse_global_args(configuration(job), rank=0, mode="translate")
    model, _, _, data = prepare(args, rank=0, mode="translate")

    def translate(lines: list[str]) -> list[str]:
        data.reset_cache()
        for line in lines:
            data.set_item(line)
        found = predict(
            model=model,
            data=data,
            device=args.device,
            n_gpu=0,
            normalization="none",
            args=args.test,
            autocast=args.autocast,
        )
        return list(found[2])

    return translate


if __name__ == "__main__":
    run_jobs(load, train)
