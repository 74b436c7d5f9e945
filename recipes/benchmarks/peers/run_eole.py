"""eole, the successor of OpenNMT-py: its trainer and its inference engine.

Its decoder is pre-norm only, so both sides are: everything else is the paper's.
"""

from pathlib import Path
from typing import Any

from job import Job, Translate, Watch, run_jobs, words_of


def configuration(job: Job) -> dict[str, Any]:
    """eole's TrainConfig."""
    size, text, never = job["size"], job["text"], 1_000_000_000
    vocabulary = str(Path(job["work"]) / "vocabulary.txt")
    return {
        "data": {
            "corpus": {"path_src": text["train"][0], "path_tgt": text["train"][1]},
            "valid": {"path_src": text["valid"][0], "path_tgt": text["valid"][1]},
        },
        "src_vocab": vocabulary,
        "tgt_vocab": vocabulary,
        "share_vocab": True,
        "src_vocab_size": 1_000_000,
        "tgt_vocab_size": 1_000_000,
        "vocab_size_multiple": 1,
        "seed": job["seed"],
        "save_data": job["work"],
        "overwrite": True,
        "transforms": [],
        "report_every": never,
        "training": {
            "model_path": str(Path(job["work"]) / job["name"]),
            "world_size": 0,
            "gpu_ranks": [],
            "num_workers": 0,
            "batch_type": "tokens",
            "batch_size": job["max_tokens"],
            "valid_batch_size": job["max_tokens"],
            "batch_size_multiple": 1,
            "accum_count": [1],
            "normalization": "tokens",
            "compute_dtype": "fp32",
            "optim": "adam",
            "adam_beta1": 0.9,
            "adam_beta2": 0.98,
            "adam_eps": 1e-9,
            "learning_rate": job["lr_factor"],
            "decay_method": "noam",
            "warmup_steps": job["warmup_updates"],
            "label_smoothing": 0.1,
            "max_grad_norm": 0.0,
            "dropout": [size["dropout"]],
            "attention_dropout": [0.0],
            "param_init_method": "xavier_uniform",
            "param_init": 0.0,
            "train_steps": never,
            "valid_steps": never,
            "save_checkpoint_steps": never,
        },
        "model": {
            "architecture": "transformer",
            "hidden_size": size["d_model"],
            "transformer_ff": size["d_ff"],
            "heads": size["heads"],
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "mlp_activation_fn": "relu",
            "add_qkvbias": True,
            "add_final_linear_bias": True,
            "add_ffnbias": True,
            "embeddings": {
                "word_vec_size": size["d_model"],
                "position_encoding_type": "SinusoidalInterleaved",
            },
            "encoder": {"encoder_type": "transformer", "layers": size["encoder_layers"]},
            "decoder": {"decoder_type": "transformer", "layers": size["decoder_layers"]},
        },
    }


def write_vocabulary(job: Job) -> None:
    """The shared vocabulary, a word a line; eole adds its special symbols."""
    folder = Path(job["work"])
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{word}\n" for word in words_of(job["dictionary"]))
    (folder / "vocabulary.txt").write_text(text, encoding="utf-8")


def train(job: Job, watch: Watch) -> None:
    """eole's training of one process."""
    from eole import train_single, trainer
    from eole.config.run import TrainConfig

    process = trainer.BatchProcessor.process_batch
    train_loop = trainer.Trainer.train

    def watched(self, batch, *args, **kwargs):
        watch.count(int(batch["tgt"][:, 1:].ne(self.train_loss.padding_idx).sum()))
        return process(self, batch, *args, **kwargs)

    def kept(self, train_iter, train_steps, *args, valid_iter=None, **kwargs):
        watch.at_end = lambda: finish(self, valid_iter)
        return train_loop(self, train_iter, train_steps, *args, valid_iter=valid_iter, **kwargs)

    trainer.BatchProcessor.process_batch = watched
    trainer.Trainer.train = kept
    write_vocabulary(job)
    watch.watch_optimizers()
    train_single.main(TrainConfig(**configuration(job)), device_id=-1)


def finish(trainer, valid_iter) -> tuple[float, int]:
    """Save the model; the validation set's negative log-likelihood in nats, and its tokens."""
    trainer.model_saver.save(1)
    found = trainer.validate(valid_iter)
    return float(found.loss), int(found.n_tokens)


def load(job: Job) -> Translate:
    """eole's inference engine, which takes lists of lines."""
    from eole.config.run import PredictConfig
    from eole.inference_engine import InferenceEnginePY

    config = PredictConfig(
        model_path=[job["model"]],
        src=job["text"]["test"][0],
        world_size=0,
        gpu_ranks=[],
        beam_size=job["beam"],
        length_penalty="wu",
        alpha=job["length_penalty"],
        batch_type="tokens",
        batch_size=job["decode_tokens"],
        max_length_ratio=0,
        max_length=150,
        compute_dtype="fp32",
    )
    engine = InferenceEnginePY(config)

    def translate(lines: list[str]) -> list[str]:
        _, _, found = engine.infer_list(lines)
        return [hypotheses[0] for hypotheses in found]

    return translate


if __name__ == "__main__":
    run_jobs(load, train)
