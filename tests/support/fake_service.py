"""A service whose translator needs no model: `python fake_service.py '{"limits": {...}}'`.

It translates a text to itself in upper case, its n-th alternative with n signs of exclamation; a
line "slow N" takes N seconds, "fail" fails, "refuse" raises a UserError, both for that line only.
"""

import json
import os
import sys
import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.attention import Attention, HeadWeights
from vaswani_plugin.serving.limits import BatchLimits, Limits
from vaswani_plugin.serving.monitoring import Log
from vaswani_plugin.serving.server import bound_socket, run
from vaswani_plugin.serving.service import Service


class FakeTranslator:
    """A `service.Translator`; each call takes `call` seconds, and `line` more for each text."""

    source_language, target_language = "en", "de"

    def __init__(self, call: float = 0.0, line: float = 0.0) -> None:
        self.call, self.line = call, line

    def translate(self, texts: Iterable[str], *, nbest: int, **options: Any) -> list[Any]:
        texts = list(texts)
        time.sleep(self.call + self.line * len(texts))
        return [self._translation(text, nbest) for text in texts]

    def _translation(self, text: str, nbest: int) -> Any:
        if text.startswith("fail"):
            raise RuntimeError(f"can't translate {text}")
        if text.startswith("refuse"):
            raise UserError(f"{text}: no")
        if text.startswith("slow "):
            time.sleep(float(text.removeprefix("slow ")))
        tokens = tuple(text.split())
        found = [
            SimpleNamespace(
                text=text.upper() + "!" * n,
                score=-float(n),
                tokens=tokens,
                token_scores=tuple(-0.5 for _ in (*tokens, "")),
                alignment=tuple((i, i) for i in range(len(tokens))),
            )
            for n in range(nbest)
        ]
        return SimpleNamespace(source=text, source_tokens=tokens, hypotheses=tuple(found))

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def attention(self, source: str, target: str | None = None) -> Attention:
        if source == "refuse":
            raise UserError("no attention here")
        sources, targets = [*source.split(), "</s>"], [*str(target).split(), "</s>"]
        return Attention(
            source,
            str(target),
            {
                "encoder": random_heads(sources, sources),
                "decoder": random_heads(targets[-1:] + targets[:-1], targets[-1:] + targets[:-1]),
                "cross": random_heads(targets, sources),
            },
        )


def random_heads(queries: list[str], keys: list[str]) -> HeadWeights:
    """Weights of 2 layers and 3 heads, the same for the same sizes."""
    scores = np.random.default_rng(1).normal(size=(2, 3, len(queries), len(keys)))
    weights = np.exp(2 * scores)
    return HeadWeights(queries, keys, weights / weights.sum(-1, keepdims=True))


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps({"event": "process", "pid": os.getpid()}), file=sys.stderr, flush=True)
    service = Service(
        FakeTranslator(**given.get("translator", {})),
        4,
        Limits(**given.get("limits", {})),
        BatchLimits(**given.get("batch", {})),
        given.get("keys"),
        Log(),
    )
    run(service, bound_socket("127.0.0.1", 0), given.get("origins", []))
