"""The toolkits that peers.sh compares, how much it measures, and what failed."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from measurement import ROOT

DRIVERS = ROOT / "recipes" / "benchmarks" / "peers"
BEAM, LENGTH_PENALTY = 4, 0.6


@dataclass(frozen=True)
class Peer:
    """A toolkit.

    Args:
        title: as the table names it.
        driver: file of peers/ without `run_` and `.py`.
        package: whose version the table tells.
        differs: where it departs from the paper's recipe because it can't be told otherwise.
        environment: name of the requirements file; "" for ours.
        trains: whether it trains; if not, it decodes our model.
        quantization: of CTranslate2.
    """

    title: str
    driver: str
    package: str
    differs: str = ""
    environment: str = ""
    trains: bool = True
    quantization: str = "float32"


PEERS = {
    "ours": Peer("ours", "ours", "vaswani-plugin"),
    "stock": Peer(
        "stock fairseq",
        "fairseq",
        "fairseq-fixed",
        "its `transformer` without the plugin; length penalty |Y|^0.6 in the place of "
        "((5+|Y|)/6)^0.6",
    ),
    "huggingface": Peer(
        "Hugging Face transformers",
        "huggingface",
        "transformers",
        "`MarianMTModel`: weights from N(0, 0.02), a bias of the logits, length penalty |Y|^0.6; "
        "the loop around it is plain PyTorch, because its Trainer has neither batches by tokens "
        "nor this schedule",
        "huggingface",
    ),
    "joeynmt": Peer(
        "JoeyNMT",
        "joeynmt",
        "joeynmt",
        "Adam's epsilon is 1e-8; outputs end at 150 subwords",
        "joeynmt",
    ),
    "eole": Peer(
        "eole",
        "eole",
        "eole",
        "pre-norm, as its decoder knows nothing else; outputs end at 150 subwords",
        "eole",
    ),
    "sockeye": Peer(
        "Sockeye",
        "sockeye",
        "sockeye",
        "batches of decoding in sentences, not in tokens; fused projections of keys and values",
        "sockeye",
    ),
    "ctranslate2": Peer(
        "CTranslate2, float32",
        "ctranslate2",
        "ctranslate2",
        "decodes our model; does not train; length penalty |Y|^0.6",
        "ctranslate2",
        trains=False,
    ),
    "ctranslate2-int8": Peer(
        "CTranslate2, int8",
        "ctranslate2",
        "ctranslate2",
        "as float32",
        "ctranslate2",
        trains=False,
        quantization="int8",
    ),
}


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Args:
        rounds: of each interleaved measurement.
        sizes: size -> (tokens of a batch with padding, updates that don't count, updates).
        target_tokens: of the training whose model is scored and decodes.
        quality_batch: tokens of a batch of that training.
        sentences: decoded in batch.
        singles: decoded one at a time.
        timeout: seconds after which a process counts as failed.
    """

    rounds: int = 3
    sizes: dict[str, tuple[int, int, int]] = field(
        default_factory=lambda: {"tiny": (4096, 5, 20), "base": (1024, 2, 10)}
    )
    target_tokens: int = 4_000_000
    quality_batch: int = 4096
    sentences: int = 1000
    singles: int = 200
    timeout: int = 4 * 3600


QUICK = Plan(
    rounds=2,
    sizes={"tiny": (4096, 2, 6), "base": (1024, 1, 3)},
    target_tokens=50_000,
    quality_batch=2048,
    sentences=96,
    singles=20,
    timeout=900,
)


@dataclass
class Bench:
    """The settings of a comparison, and what failed so far."""

    work: Path
    data: Path
    pair: tuple[str, str]
    plan: Plan
    threads: int
    failures: list[dict[str, str]] = field(default_factory=list)
    pythons: dict[str, str] = field(default_factory=dict)

    def failed(self, peer: str, what: str) -> bool:
        """Whether the peer has failed at this before."""
        return any(each["peer"] == peer and each["what"] == what for each in self.failures)

    def fail(self, peer: str, what: str, reason: str) -> None:
        """Note a failure and go on."""
        print(f"peers: {PEERS[peer].title}: {what} failed: {reason}", file=sys.stderr, flush=True)
        self.failures.append({"peer": peer, "what": what, "reason": reason})
