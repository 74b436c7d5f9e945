"""The numbers of the special symbols, as every export to Hugging Face writes them."""

from typing import Any

from vaswani_plugin.text.dictionary import BOS, EOS, PAD


def generation_defaults() -> dict[str, Any]:
    """The numbers of the special symbols for generation_config.json; padding is never written."""
    return {
        "bos_token_id": BOS,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "bad_words_ids": [[PAD]],
    }
