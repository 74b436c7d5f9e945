"""A service without a model, in upper case: `python fake_service.py '{"limits": {...}}'`.

A line "until FILE" takes until there is one, "fail" fails, "refuse" raises a UserError.
"""

import json
import os
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from vaswani_plugin.errors import UserError
from vaswani_plugin.inference.attention import Attention, HeadWeights
from vaswani_plugin.inference.runner import Hypothesis


class FakeTranslator:
    """What a `Service` calls of a `Translator`: `call` seconds, `line` more for each text."""

    source_language, target_language = "en", "de"

    def __init__(self, call: float = 0.0, line: float = 0.0) -> None:
        self.call, self.line = call, line

    def read(self, text: str, **options: Any) -> Any:
        """A text is a piece; its words are its subwords, its digits a piece each."""
        pieces = list(text) if text.isdecimal() else [text]
        return SimpleNamespace(text=text, pieces=[piece.split(" ") for piece in pieces])

    def decode(self, pieces: list[list[str]], *, nbest: int, **options: Any) -> list[Any]:
        time.sleep(self.call + self.line * len(pieces))
        return [self._translation(" ".join(piece), nbest) for piece in pieces]

    def join(self, source: Any, decoded: Any, nbest: int) -> Any:
        parts = [next(decoded) for _ in source.pieces]
        if len(parts) == 1:
            return parts[0]
        text = "".join(part.hypotheses[0].text for part in parts)
        return SimpleNamespace(source=text, hypotheses=[SimpleNamespace(text=text)])

    def _translation(self, text: str, nbest: int) -> Any:
        if text.startswith("fail"):
            raise RuntimeError(f"can't translate {text}")
        if text.startswith("refuse"):
            raise UserError(f"{text}: no")
        if text.startswith("until "):
            while not os.path.exists(text.removeprefix("until ")):
                time.sleep(0.005)
        tokens = tuple(text.split())
        scores, alignment = (-0.5,) * (len(tokens) + 1), tuple((i, i) for i in range(len(tokens)))
        found = [
            Hypothesis(text.upper() + "!" * n, -float(n), tokens, scores, alignment)
            for n in range(nbest)
        ]
        return SimpleNamespace(source=text, source_tokens=tokens, hypotheses=tuple(found))

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def attention(self, source: str, target: str | None = None) -> Attention:
        if source == "refuse":
            raise UserError("no attention here")
        return random_attention([*source.split(), "</s>"], [*str(target).split(), "</s>"])


def random_attention(source: list[str], target: list[str]) -> Attention:
    """Weights of 2 layers and 3 heads, the same for the same sizes."""
    read, kinds = [target[-1], *target[:-1]], {}
    sides = {"encoder": (source, source), "decoder": (read, read), "cross": (target, source)}
    for kind, (queries, keys) in sides.items():
        weights = np.exp(2 * np.random.default_rng(1).normal(size=(2, 3, len(queries), len(keys))))
        kinds[kind] = HeadWeights(queries, keys, weights / weights.sum(-1, keepdims=True))
    return Attention(" ".join(source), " ".join(target), kinds)


if __name__ == "__main__":
    from vaswani_plugin.serving import server
    from vaswani_plugin.serving.app import Gate
    from vaswani_plugin.serving.texts import Limits
    from vaswani_plugin.serving.work import Service

    given = json.loads(sys.argv[1])
    translator = FakeTranslator(**given.get("translator", {}))
    service = Service(translator, 4, Limits(**given.get("limits", {})))
    gate = Gate(given.get("keys"), given.get("rate"))
    listener = server.bound_socket("127.0.0.1", 0)
    server.run(service, gate, listener, given.get("origins", []), given.get("proxies"))
