"""Numbers and pictures of the paper: `vaswani complexity`, `positions`, `cost`, `curves`."""

from pathlib import Path
from typing import Annotated, Any, Literal

from vaswani_plugin.cli.command import Count, Format, Size, non_negative, one_of, positive, show
from vaswani_plugin.errors import UserError
from vaswani_plugin.metrics.cost import DEVICES
from vaswani_plugin.model.architectures import PAPER_VOCABULARY

SHOWN = (0, 1, 2, 5, 10, 20, 50)
"""Distances of the printed products of positions."""
SERIES = Literal["loss", "ppl", "lr", "wps", "gnorm", "bleu", "chrf"]


def complexity(
    *, n: Count = 50, d: Count = 512, k: Count = 3, r: Count = 16, format: Format = "text"
) -> None:
    """Table 1: the operations of each layer type by formula.

    Example: vaswani complexity --n 50 --d 512 --k 3 --r 16

    Args:
        n: length of the sequence.
        d: width of the layer.
        k: kernel size of the convolution.
        r: neighbourhood of restricted self-attention.
    """
    from vaswani_plugin.metrics.complexity import as_text, table_1

    result: dict[str, Any] = {"n": n, "d": d, "k": k, "r": r}
    result["layers"] = [vars(row) for row in table_1(n, d, k, r)]
    show(result, as_text(result), format)


def positions(
    *, length: Count = 100, d_model: int = 512, plot: Path | None = None, format: Format = "text"
) -> None:
    """Section 3.5: the positional encoding as a heat map, and dot products by distance.

    Example: vaswani positions --length 100 --d-model 512 --plot positions.png

    Args:
        length: number of positions.
        d_model: dimensions of the encoding.
        plot: draw the heat maps.
    """
    if d_model % 2 or d_model < 2:
        raise UserError(f"--d-model {d_model}: must be even, at least 2")
    if plot is not None:
        from vaswani_plugin.figures.figures import check_plot_path, new_figure, save_figure

        check_plot_path(plot)
    import torch

    from vaswani_plugin.modules.embedding import sinusoids

    table = sinusoids(torch.arange(length, device="cpu"), d_model).numpy()  # (T, D), float64
    by_distance = {k: float(table[0] @ table[k]) / d_model for k in SHOWN if k < length}
    if plot is not None:
        figure = new_figure(11, 4.5)
        left, right = figure.subplots(1, 2)
        drawn = left.imshow(table, aspect="auto", cmap="RdBu", vmin=-1, vmax=1)
        left.set(xlabel="dimension", ylabel="position", title="PE(pos, i)")
        figure.colorbar(drawn, ax=left)
        drawn = right.imshow(table @ table.T / d_model, cmap="viridis")
        right.set(xlabel="position", ylabel="position", title="PE(a) . PE(b) / d_model")
        figure.colorbar(drawn, ax=right)
        save_figure(figure, plot)
    if format == "json":
        sizes = {"length": length, "d_model": d_model}
        show({**sizes, "product_by_distance": by_distance, "table": table.tolist()}, "", format)
        return
    print(f"{length} positions, d_model {d_model}")
    print("PE(pos) . PE(pos + k) / d_model, the same for every pos:")
    for distance, product in by_distance.items():
        print(f"  k {distance:>3}  {product:.4f}")


@one_of("device", "teraflops")
def cost(
    *,
    hours: Annotated[float, non_negative, "H"] | None = None,
    devices: Count = 1,
    device: Annotated[str | None, [*DEVICES]] = None,
    teraflops: Annotated[float, positive, "T"] | None = None,
    arch: Annotated[str, "NAME"] | None = None,
    vocab: Size = PAPER_VOCABULARY,
    sentences: Size = 1000,
    source_length: Size = 25,
    target_length: Size = 25,
    updates: Count | None = None,
    format: Format = "text",
) -> None:
    """Table 2: training cost in FLOPs, from the time or from the model's size.

    --hours: by the paper's method, time x devices x TFLOP/s. --arch: by counting the operations of
    a batch with torch.utils.flop_counter.

    Example: vaswani cost --arch vaswani_base --hours 12 --devices 8 --device P100

    Args:
        hours: training time in hours.
        devices: with --hours: number of devices.
        device: a device with a known rate.
        teraflops: for another device: its sustained TFLOP/s.
        arch: an architecture of `vaswani archs`.
        vocab: with --arch: rows of the shared embedding matrix.
        sentences: sentences in a batch.
        source_length: tokens in a source sentence, padding included.
        target_length: tokens in a target sentence, padding included.
        updates: training updates (default: the paper's, 100,000, or 300,000 for vaswani_big).
    """
    if hours is None and (device or teraflops or devices > 1):
        raise UserError("--devices and their rate go with --hours: cost is time x devices x rate")
    sizes = vocab, sentences, source_length, target_length
    if arch is None and (updates or sizes != (PAPER_VOCABULARY, 1000, 25, 25)):
        raise UserError("--vocab, --sentences, the lengths and --updates go with --arch")
    from vaswani_plugin.metrics import cost as report

    result: dict[str, Any] = {"paper": report.paper_trainings()}
    if hours is not None:
        result["by_time"] = report.by_time(hours, devices, device, teraflops)
    if arch is not None:
        from vaswani_plugin.figures.flops import by_counting  # imports torch

        batch = sentences, source_length, target_length
        result["by_counting"] = by_counting(arch, vocab, batch, updates)
    result["table_2"] = [vars(row) for row in report.TABLE_2]
    result["devices"] = [vars(one) for one in DEVICES.values()]
    show(result, report.as_text(result), format)


def curves(
    log: list[Annotated[Path, "LOG"]],
    *,
    label: Annotated[list[str], "NAME"] | None = None,
    series: list[SERIES] | None = None,
    output: Path | None = None,
    format: Format = "text",
) -> None:
    """Training curves from fairseq's logs: loss, perplexity, BLEU, learning rate, speed.

    Example: vaswani curves work/multi30k other/train.log --label ours theirs --output curves.png

    Args:
        log: a log of fairseq-train, or the work folder of a recipe or an experiment.
        label: a name for each log, in the same order (default: the paths).
        series: what to show; loss and ppl include the validation's (default: all that the logs
            hold).
        output: draw the curves, one panel for each series.
    """
    from vaswani_plugin.figures import curves as figure
    from vaswani_plugin.figures.figures import check_plot_path

    logs = [each for path in log for each in figure.logs_of(path)]
    if label and len(label) != len(logs):
        raise UserError(f"--label: {len(label)} names for {len(logs)} logs")
    if output:
        check_plot_path(output)
    labels: list[str | None] = [*label] if label else [None] * len(logs)
    names = list(dict.fromkeys(series or figure.SERIES))
    runs = [figure.read_run(path, name, names) for path, name in zip(logs, labels, strict=True)]
    present = {key.split()[-1] for each in runs for key in each["series"]}
    for name in series or names[:1]:
        if name not in present:
            raise UserError(f"--series {name}: no log has it")
    names = [name for name in names if name in present]
    if output:
        figure.draw(runs, names, output)
    show({"runs": runs}, figure.as_text(runs), format)
