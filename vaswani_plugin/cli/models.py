"""Files of models: `vaswani average`, `import`, `export` and `card`."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

from vaswani_plugin.cli.command import Count, Folder, Format, Place, one_of, show, start_fairseq
from vaswani_plugin.errors import UserError

ONLY_FOR = {
    "--quantization": ("ctranslate2", "onnx"),
    "--allow-layer-norm-eps": ("fairseq",),
    "--without-tokenizer": ("huggingface",),
}
"""Flag: the values of --to that it goes with."""


@one_of("last", "last_updates", "best")
def average(
    *,
    inputs: list[Place],
    last: Count | None = None,
    last_updates: Count | None = None,
    best: Count | None = None,
    at_most: bool = False,
    output: Path,
    format: Format = "text",
) -> None:
    """Average the weights of several checkpoints; fairseq loads the result.

    Example: vaswani average --inputs checkpoints --last 5 --output checkpoints/average.pt

    Args:
        inputs: checkpoint files, or one folder with --last, --last-updates or --best.
        last: the checkpoints of the last N epochs (checkpoint12.pt; checkpoint_last.pt if it has
            more updates).
        last_updates: the N checkpoints with the most updates (checkpoint_3_12000.pt;
            checkpoint_last.pt if it has more).
        best: the N checkpoints with the best validation (checkpoint.best_loss_3.120.pt).
        at_most: take fewer where there aren't N, as after a short training.
        output: the averaged checkpoint to write.
    """
    from tqdm.auto import tqdm

    from vaswani_plugin.export.average import average_checkpoints, select
    from vaswani_plugin.export.checkpoints import save_checkpoint
    from vaswani_plugin.files.outputs import check_outputs

    paths = select(inputs, last, last_updates, best, at_most)
    asked = last or last_updates or best or len(paths)
    if len(paths) < asked:
        few = f"there are only {len(paths)} checkpoints of {asked}"
        print(f"{few}: all are averaged", file=sys.stderr)
    check_outputs("--output", [output], paths)
    # Made before the long work, so that an error comes at once.
    output.parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(average_checkpoints(tqdm(paths, disable=None)), output)
    names = ", ".join(path.name for path in paths)
    result = {"output": str(output), "inputs": [str(path) for path in paths], "asked": asked}
    show(result, f"wrote {output}, the average of {len(paths)}: {names}", format)


def import_(
    *,
    checkpoint: Place,
    data_bin: Folder,
    source_lang: Annotated[str, "LANG"] | None = None,
    target_lang: Annotated[str, "LANG"] | None = None,
    output: Place,
    format: Format = "text",
) -> None:
    """Convert a checkpoint of fairseq's own transformer into one of this project.

    Example: vaswani import --checkpoint stock.pt --data-bin data-bin --output ours.pt

    Args:
        checkpoint: the checkpoint file.
        data_bin: the folder of the dictionaries (dict.*.txt) that it was trained with.
        source_lang: source language (default: from the checkpoint or the file names).
        target_lang: target language (default: from the checkpoint or the file names).
        output: the checkpoint file to write.
    """
    start_fairseq()
    from vaswani_plugin.export.stock_fairseq import import_stock

    config = import_stock(checkpoint, data_bin, output, source_lang, target_lang)
    sizes = ", ".join(f"{key} {value}" for key, value in config.items() if value is not None)
    text = f"wrote {output}, a vaswani_transformer: {sizes}"
    show({"output": str(output), "model": config}, text, format)


def export(
    *,
    to: Literal["fairseq", "ctranslate2", "huggingface", "onnx"],
    model: Annotated[Place, "--model", "--checkpoint"],
    output: Place,
    quantization: Literal["int8", "int8_float32", "bfloat16", "float16"] | None = None,
    allow_layer_norm_eps: bool = False,
    without_tokenizer: bool = False,
    format: Format = "text",
) -> None:
    """Convert a model for stock fairseq, CTranslate2, Hugging Face or ONNX.

    Example: vaswani export --to ctranslate2 --model work/quickstart/model --output model-ct2

    Args:
        to: the program that will load the model.
        model: a bundle; with --to fairseq also a checkpoint.
        output: a checkpoint file for fairseq; otherwise a new folder.
        quantization: ctranslate2: the type of the weights; onnx: int8 (default: float32).
        allow_layer_norm_eps: fairseq: export even if the model's LayerNorm epsilon is not
            fairseq's 1e-5.
        without_tokenizer: huggingface: export no tokenizer; needed where none fits the model's
            text.
    """
    values = (quantization, allow_layer_norm_eps, without_tokenizer)
    for (flag, targets), value in zip(ONLY_FOR.items(), values, strict=True):
        if value and to not in targets:
            raise UserError(f"{flag} means nothing with --to {to}; leave it out")
    if to == "fairseq":
        start_fairseq()
    name = "stock_fairseq" if to == "fairseq" else f"{to}_export"
    write = getattr(import_module(f"vaswani_plugin.export.{name}"), f"export_to_{to}")
    option = {"fairseq": allow_layer_norm_eps, "huggingface": not without_tokenizer}
    source = write(model, output, option.get(to, quantization))
    result = {"output": str(output), "to": to, "model": str(source)}
    show(result, f"wrote {output} for {to}, from {source}", format)


def card(*, model: Folder, result: Path | None = None, format: Format = "text") -> None:
    """Write a bundle's model card (README.md), model.safetensors and config.json.

    Example: vaswani card --model work/quickstart/model --result work/quickstart/result.json

    Args:
        result: the recipe's result.json; the card shows its data, updates, scores and versions.
    """
    from vaswani_plugin.export.checkpoints import save_safetensors
    from vaswani_plugin.export.model_card import write_card
    from vaswani_plugin.inference.checkpoints import load_checkpoint
    from vaswani_plugin.text.settings import CARD, CONFIG, MODEL, SAFETENSORS, read_settings

    read_settings(model)  # raises if the folder is not a bundle
    written = []
    if (model / MODEL).is_file():
        save_safetensors(load_checkpoint(model / MODEL), model / SAFETENSORS)
        written += [SAFETENSORS, CONFIG]
    if write_card(model, result):
        written.append(CARD)
    else:
        print(f"{model / CARD} was edited by hand and stays as it is", file=sys.stderr)
    text = f"{model}: wrote {', '.join(written) or 'nothing'}"
    show({"model": str(model), "written": written}, text, format)
