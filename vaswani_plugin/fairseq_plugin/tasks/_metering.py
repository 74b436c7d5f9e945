"""The flags of --log-mfu; `training/metering.py` does the work."""

from dataclasses import dataclass, field

from fairseq.dataclass import FairseqDataclass


@dataclass
class MeteringConfig(FairseqDataclass):
    """Flags of every task that meters its training."""

    log_mfu: bool = field(
        default=False,
        metadata={
            "help": "log tflops: 10^12 floating-point operations a second, counted as 2 for each "
            "multiply-add of every matrix product, attention included, forward and (twice) "
            "backward, over real tokens only: padding, recomputed activations, softmax, "
            "normalization and the optimizer don't count, what the causal mask hides does; mfu: "
            "percent of the machine's matrix rate; source_padding, target_padding: percent of the "
            "batches' positions. (wps, always logged, counts target tokens a second, without "
            "padding.)"
        },
    )
    peak_flops: float = field(
        default=0.0,
        metadata={
            "help": "matrix rate of one device in FLOP/s, of which mfu is the share; 0 measures: "
            "the best of a few large products in the training precision, once at the start"
        },
    )
