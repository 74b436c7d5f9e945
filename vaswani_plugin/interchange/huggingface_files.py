"""What every export to Hugging Face writes in the same way: JSON files, and options of generate."""

import json
from pathlib import Path
from typing import Any

from vaswani_plugin.text.dictionary import BOS, EOS, PAD


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file in Hugging Face's layout."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def generation_defaults() -> dict[str, Any]:
    """The numbers of the special symbols for generation_config.json; padding is never written."""
    return {
        "bos_token_id": BOS,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "bad_words_ids": [[PAD]],
    }
