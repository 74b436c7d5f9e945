"""`vaswani attention`: heat maps of what each head of one layer attends to.

Axes: H heads, T queries, S keys.
"""

import argparse
import json
import os
import sys
from pathlib import Path

import torch
from fairseq import checkpoint_utils
from torch import Tensor

HELP = "draw the attention of every head of a layer for one sentence"
EXAMPLE = (
    "vaswani attention --path checkpoint_best.pt --data DATA_BIN --bpe-codes codes "
    '--source "a man sleeps ." --output attention.png'
)
KINDS = {
    "cross": "decoder to encoder",
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's flags."""
    parser.add_argument("--path", required=True, help="checkpoint")
    parser.add_argument("--data", required=True, help="binarized data, for the dictionaries")
    parser.add_argument("--source", required=True, help="source sentence, tokenized")
    parser.add_argument("--target", help="target sentence, tokenized (default: the model's own)")
    parser.add_argument("--bpe-codes", help="split source and target with these codes first")
    parser.add_argument("--kind", choices=sorted(KINDS), default="cross")
    parser.add_argument("--layer", type=int, help="number from 1 (default: the last)")
    parser.add_argument("--output", default="attention.png", help="picture (default: %(default)s)")
    parser.add_argument("--format", choices=["text", "json"], default="text")


def run(args: argparse.Namespace) -> int:
    """Translate if needed, collect the weights, draw them.

    Raises:
        ValueError: for a layer out of range, an empty sentence or a model without per-head
            weights.
        OSError: for a missing file.
    """
    for path in filter(None, (args.path, args.data, args.bpe_codes)):
        if not os.path.exists(path):
            raise FileNotFoundError(f"{path} does not exist")
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [args.path], arg_overrides={"data": args.data}
    )
    if not hasattr(model, "attention_weights"):
        raise ValueError(f"{args.path}: a {type(model).__name__} has no per-head weights")
    model.eval()
    source = _tokens(args.source, args.bpe_codes, task.source_dictionary, "--source")
    if args.target is None:
        target = _translate(task, model, source)
    else:
        target = _tokens(args.target, args.bpe_codes, task.target_dictionary, "--target")
    shifted = target.roll(1)  # end of sentence first, as in training
    weights = model.attention_weights(source[None], shifted[None])[args.kind]
    layer = len(weights) if args.layer is None else args.layer
    if not 1 <= layer <= len(weights):
        raise ValueError(f"--layer {layer} is not in 1 ... {len(weights)}")
    chosen = weights[layer - 1][0]  # (H, T, S)
    source_words = _words(source, task.source_dictionary)
    target_words = _words(target, task.target_dictionary)
    fed_words = _words(shifted, task.target_dictionary)
    queries = {"encoder": source_words, "decoder": fed_words, "cross": target_words}[args.kind]
    keys = fed_words if args.kind == "decoder" else source_words
    draw_heads(chosen, queries, keys, f"{KINDS[args.kind]}, layer {layer}", Path(args.output))
    if args.format == "json":
        print(json.dumps({"queries": queries, "keys": keys, "weights": chosen.tolist()}))
    else:
        print(os.path.abspath(args.output))
    return 0


def draw_heads(
    weights: Tensor, queries: list[str], keys: list[str], title: str, output: Path
) -> None:
    """One heat map a head, dark where the weight is high.

    Args:
        weights: (H, T, S), each row summing to 1.
        queries: T labels, top to bottom.
        keys: S labels, left to right.
        title: stands above the picture.
        output: file to write; its suffix chooses the format.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    heads = weights.size(0)
    columns = min(heads, 4)
    rows = -(-heads // columns)
    width, height = 1.2 + 0.22 * len(keys), 1.6 + 0.22 * len(queries)
    figure, panels = pyplot.subplots(
        rows,
        columns,
        figsize=(columns * width, rows * height),
        squeeze=False,
        layout="constrained",
    )
    for number, panel in enumerate(panels.flat):
        if number >= heads:
            panel.axis("off")
            continue
        panel.imshow(weights[number].cpu().numpy(), cmap="Blues", vmin=0, vmax=1)
        panel.set_title(f"head {number + 1}", fontsize=9)
        panel.set_xticks(range(len(keys)), keys, rotation=90, fontsize=7)
        first_column = number % columns == 0
        panel.set_yticks(range(len(queries)), queries if first_column else [], fontsize=7)
    figure.suptitle(title)
    partial = output.with_name(f".{output.name}.partial{output.suffix}")
    figure.savefig(partial, dpi=150, bbox_inches="tight")
    pyplot.close(figure)
    os.replace(partial, output)


def _tokens(sentence: str, codes: str | None, dictionary, flag: str) -> Tensor:
    if not sentence.strip():
        raise ValueError(f"{flag} is an empty sentence")
    if codes is not None:
        from subword_nmt.apply_bpe import BPE

        with open(codes, encoding="utf-8") as lines:
            sentence = BPE(lines).process_line(sentence)
    tokens = dictionary.encode_line(sentence, add_if_not_exist=False).long()
    unknown = int(tokens.eq(dictionary.unk()).sum())
    if unknown:
        print(f"{flag}: {unknown} of {len(tokens)} tokens are unknown", file=sys.stderr)
    return tokens


def _words(tokens: Tensor, dictionary) -> list[str]:
    return [dictionary[token] for token in tokens.tolist()]


def _translate(task, model, source: Tensor) -> Tensor:
    generator = task.build_generator([model], argparse.Namespace())
    lengths = torch.tensor([source.numel()])
    sample = {"net_input": {"src_tokens": source[None], "src_lengths": lengths}}
    return generator.generate([model], sample)[0][0]["tokens"]
