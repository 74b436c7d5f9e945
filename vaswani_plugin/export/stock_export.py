"""A trained model of ours as a checkpoint for stock fairseq."""

from pathlib import Path

from vaswani_plugin.export.exported_model import require_finite, require_known_modules
from vaswani_plugin.export.fairseq_transformer import checkpoint_of, our_model, stock_model
from vaswani_plugin.inference.checkpoint_models import make_transformer
from vaswani_plugin.inference.checkpoints import load_checkpoint, save_checkpoint
from vaswani_plugin.inference.safetensors_file import Weights, updates_of
from vaswani_plugin.inference.untrusted import untrusted
from vaswani_plugin.model.configuration import Configuration
from vaswani_plugin.text.binary import SPECIAL_SYMBOLS
from vaswani_plugin.text.dictionary import Dictionary
from vaswani_plugin.text.settings import weights_path


def export_to_fairseq(model: Path, output: Path, allow_layer_norm_eps: bool = False) -> Path:
    """Write a checkpoint for stock fairseq.

    Args:
        model: a bundle or a checkpoint.
        output: the file to write.
        allow_layer_norm_eps: as in `stock_model`.

    Returns:
        The file that the weights were read from.

    Raises:
        ValueError: the model can't be used, fairseq can't express it, or a file would be
            overwritten.
        OSError: a file can't be read or written.
    """
    path = weights_path(model) if model.is_dir() else model
    state = load_checkpoint(path)
    with untrusted(path):
        cfg = our_model(state)
        require_finite(state["model"])
        if output.is_dir():
            raise ValueError(f"--output {output} is a folder; name a file in it")
        if output.exists() and output.samefile(path):
            raise ValueError(f"--output {output} is the model itself and would be lost")
        _require_known_modules(cfg, state["model"], path)
        weights, options = stock_model(state["model"], cfg, allow_layer_norm_eps)
        task = state["cfg"]["task"]
        kept = ("data", "source_lang", "target_lang", "left_pad_source", "left_pad_target")
        exported = checkpoint_of(
            weights,
            {"_name": "transformer", "arch": "transformer", **options},
            {
                "_name": "translation",
                **{name: task[name] for name in kept if task.get(name) is not None},
                "max_source_positions": cfg.max_source_positions,
                "max_target_positions": cfg.max_target_positions,
            },
            updates_of(state) or 0,
        )
        output.parent.mkdir(parents=True, exist_ok=True)
        save_checkpoint(exported, output)
    return path


def _require_known_modules(cfg: Configuration, weights: Weights, path: Path) -> None:
    """Build the model, with any words, and check its parts."""
    counts = (len(weights[f"{side}.embedding.weight"]) for side in ("encoder", "decoder"))
    words = (Dictionary([f"w{n}" for n in range(count - len(SPECIAL_SYMBOLS))]) for count in counts)
    require_known_modules(make_transformer(cfg, *words, weights, path))
