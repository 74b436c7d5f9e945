"""Prints the fairseq-train flags that build a model like a bundle's, one word per line.

    bundle_flags.py work/quickstart/model

The first line is the value of --arch. The others are the sizes and kinds in which the model may
differ from its architecture. Dropout and other regularization are options of the new training.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from vaswani_plugin.errors import UserError, run  # noqa: E402
from vaswani_plugin.text.checkpoint_outline import read_outline  # noqa: E402
from vaswani_plugin.text.settings import MODEL  # noqa: E402

SIZES = (
    *("d_model", "d_ff", "encoder_layers", "decoder_layers", "heads", "d_k", "d_v"),
    *("positions", "share_embeddings", "attention_window", "attention_scale", "layer_norm_eps"),
    "next_word",
    *("d_hidden", "no_projections"),  # of the one-layer model
    *("units", "layers", "no_reverse_source", "attention", "input_feeding"),  # of LSTMs
)


def flags(model: dict[str, str | int | float | bool | None], name: str) -> list[str]:
    """Makes the flags from the model's part of a checkpoint's configuration.

    Args:
        model: the configuration.
        name: of the checkpoint, for messages.

    Raises:
        UserError: the model is not one of the plugin's models.
    """
    architecture = model.get("_name")
    if not isinstance(architecture, str) or not architecture.startswith("vaswani_"):
        raise UserError(
            f"{name} holds {architecture or 'a model without a configuration'}: only the plugin's "
            "own models can be fine-tuned here"
        )
    words = [architecture]
    for size in SIZES:
        value, flag = model.get(size), f"--{size.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words += [flag, str(value)]
    return words


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path)
    path = parser.parse_args().bundle / MODEL
    print("\n".join(flags(read_outline(path).model, str(path))))


if __name__ == "__main__":
    run(main)
