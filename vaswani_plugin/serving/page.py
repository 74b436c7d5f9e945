"""The page."""

from typing import Any


def page() -> str:
    return "<!DOCTYPE html><title>x</title>"


def policy() -> str:
    return "default-src 'none'"


def attention_fields(found: Any) -> dict[str, Any]:
    return {}
