"""JoeyNMT: its trainer, with a configuration made from the job. Its Adam's epsilon is 1e-8."""

from pathlib import Path

from watch import Job, Watch, run, words_of


def train(job: Job, watch: Watch) -> None:
    """Its TrainManager, without validations."""
    from joeynmt import training

    size, work, never = job["size"], Path(job["work"]), 1_000_000_000
    (work / "model").mkdir(exist_ok=True)
    (work / "vocabulary.txt").write_text("".join(f"{w}\n" for w in words_of(job)), encoding="utf-8")
    layers = {"type": "transformer", "num_layers": size["layers"], "num_heads": size["heads"]}
    layers |= {"hidden_size": size["d_model"], "ff_size": size["d_ff"], "dropout": size["dropout"]}
    layers |= {"layer_norm": "post", "activation": "relu"}
    layers["embeddings"] = {"embedding_dim": size["d_model"], "scale": True, "dropout": 0.0}
    model = {"tied_embeddings": True, "tied_softmax": True, "encoder": layers, "decoder": layers}
    model |= {"initializer": "xavier_uniform", "embed_initializer": "xavier_uniform"}
    loop = {"optimizer": "adam", "adam_betas": [0.9, 0.98], "learning_rate": 1e-4, "epochs": never}
    loop |= {"scheduling": "noam", "learning_rate_warmup": 4000, "normalization": "tokens"}
    loop |= {"label_smoothing": 0.1, "batch_type": "token"}
    loop |= {"batch_size": job["max_tokens"], "validation_freq": never, "print_valid_sents": []}
    text = [Path(path) for path in job["text"]]
    side = {"max_length": 1000, "level": "word", "voc_file": str(work / "vocabulary.txt")}
    data = {"dataset_type": "plain", "train": str(text[0].with_suffix(""))}
    data |= {"dev": data["train"], "src": {"lang": text[0].suffix[1:], **side}}
    data["trg"] = {"lang": text[1].suffix[1:], **side}
    config = {"name": "speed", "joeynmt_version": "2.3.0", "model_dir": str(work / "model")}
    config |= {"use_cuda": False, "random_seed": 1, "data": data, "training": loop, "model": model}
    config["testing"] = {"batch_size": job["max_tokens"], "batch_type": "token"}
    step = training.TrainManager._train_step

    def counted(self, batch):
        watch.count(target=int(batch.ntokens))
        return step(self, batch)

    training.TrainManager._train_step = counted
    watch.follow_optimizers()
    training.train(0, 0, config, skip_test=True)


if __name__ == "__main__":
    run(train)
