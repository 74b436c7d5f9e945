"""eole, OpenNMT-py's successor: its trainer. Its decoder is pre-norm only, so both sides are."""

from pathlib import Path

from watch import Job, Watch, run, words_of


def train(job: Job, watch: Watch) -> None:
    """eole's training of one process."""
    from eole import train_single, trainer
    from eole.config.run import TrainConfig

    size, never, work = job["size"], 1_000_000_000, Path(job["work"])
    (work / "vocabulary.txt").write_text("".join(f"{w}\n" for w in words_of(job)), encoding="utf-8")
    source, target = job["text"]
    training = {"model_path": str(work / "model"), "world_size": 0, "gpu_ranks": []}
    training |= {"num_workers": 0, "batch_type": "tokens", "batch_size": job["max_tokens"]}
    training |= {"batch_size_multiple": 1, "accum_count": [1], "normalization": "tokens"}
    training |= {"compute_dtype": "fp32", "optim": "adam", "adam_beta2": 0.98, "adam_eps": 1e-9}
    training |= {"learning_rate": 1e-4, "decay_method": "none", "label_smoothing": 0.1}
    training |= {"dropout": [size["dropout"]], "attention_dropout": [0.0], "max_grad_norm": 0.0}
    training |= dict.fromkeys(("train_steps", "valid_steps", "save_checkpoint_steps"), never)
    model = {"architecture": "transformer", "hidden_size": size["d_model"], "heads": size["heads"]}
    model |= {"transformer_ff": size["d_ff"], "mlp_activation_fn": "relu", "add_qkvbias": True}
    model |= {"add_final_linear_bias": True, "add_ffnbias": True, "share_embeddings": True}
    model["share_decoder_embeddings"] = True
    positions, width = "SinusoidalInterleaved", size["d_model"]
    model["embeddings"] = {"position_encoding_type": positions, "word_vec_size": width}
    for side in ("encoder", "decoder"):
        model[side] = {f"{side}_type": "transformer", "layers": size["layers"]}
    vocabulary = {key: str(work / "vocabulary.txt") for key in ("src_vocab", "tgt_vocab")}
    vocabulary |= {"share_vocab": True, "vocab_size_multiple": 1, "transforms": [], "seed": 1}
    vocabulary |= {"src_vocab_size": 10**6, "tgt_vocab_size": 10**6, "overwrite": True}
    step = trainer.BatchProcessor.process_batch

    def counted(self, batch, *args, **kwargs):
        watch.count(target=int(batch["tgt"][:, 1:].ne(self.train_loss.padding_idx).sum()))
        return step(self, batch, *args, **kwargs)

    trainer.BatchProcessor.process_batch = counted
    watch.follow_optimizers()
    data = {"data": {"corpus": {"path_src": source, "path_tgt": target}}, "report_every": never}
    config = TrainConfig(save_data=str(work), training=training, model=model, **vocabulary, **data)
    train_single.main(config, device_id=-1)


if __name__ == "__main__":
    run(train)
