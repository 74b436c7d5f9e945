"""The fields of a request: a JSON object, a form (both encodings) or the query, within the limits.

A body that can't be read is refused with LibreTranslate's message, whatever its bytes are.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from vaswani_plugin.serving.limits import Limits, Refusal

MOST_FIELDS = 1000
DROPPED = 16
"""A body that is too long is read up to this multiple of the limit."""


async def read_fields(request: Request, limits: Limits) -> dict[str, Any]:
    """The fields by their names; `q` is a list if a form has it more than once.

    A body that begins as a JSON object is one, whatever its type is said to be.

    Raises:
        Refusal: too large (413), too slow (408), not readable (400).
    """
    try:
        query = _form_fields(parse_qsl(request.url.query, max_num_fields=MOST_FIELDS))
    except ValueError as error:
        raise Refusal(400, f"The query has more than {MOST_FIELDS} fields") from error
    try:
        async with asyncio.timeout(limits.body_seconds):
            body = await _read(request, limits.body_bytes)
    except TimeoutError as error:
        raise Refusal(408, "The request's body came too slowly", {"Connection": "close"}) from error
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return query | _form_fields(await _multipart(request.headers, body, limits))
    is_json = kind == "application/json" or kind.endswith("+json")
    if is_json or body.lstrip().startswith(b"{"):
        return _json_fields(body)
    try:
        # As browsers send it: UTF-8, "+" for a space. curl -d sends UTF-8 bytes as they are.
        pairs = parse_qsl(
            body.decode("utf-8"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError as error:
        raise Refusal(400, "Invalid request: not a form in UTF-8") from error
    return query | _form_fields(pairs)


async def _read(request: Request, most: int) -> bytes:
    """The body.

    Most clients read the answer only after they have sent the body. So one that is too long is read
    and dropped, up to `DROPPED` times the limit.

    Raises:
        Refusal: it is longer than `most` bytes, or the client has closed the connection.
    """
    message = f"Invalid request: the body exceeds {most} bytes"
    refusal = Refusal(413, message, {"Connection": "close"})
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:18]) > DROPPED * most:
        raise refusal
    body, read = bytearray(), 0
    try:
        async for block in request.stream():
            read += len(block)
            if read <= most:
                body += block
            elif read > DROPPED * most:
                break
    except ClientDisconnect as error:
        raise Refusal(400, "Invalid request: the body is not complete") from error
    if read > most:
        raise refusal
    return bytes(body)


def _json_fields(body: bytes) -> dict[str, Any]:
    """The fields of a JSON object; null is as if the field were not there."""
    try:
        fields = json.loads(body)
        # JSON allows half a surrogate pair, which is no text.
        json.dumps(fields, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "Invalid JSON format") from error
    if not isinstance(fields, dict):
        raise Refusal(400, "Invalid JSON format")
    return {name: value for name, value in fields.items() if value is not None}


async def _multipart(headers: Headers, body: bytes, limits: Limits) -> list[tuple[str, str]]:
    async def blocks() -> AsyncGenerator[bytes, None]:
        yield body

    sizes = {"max_files": 0, "max_fields": MOST_FIELDS, "max_part_size": limits.body_bytes}
    try:
        form = await MultiPartParser(headers, blocks(), **sizes).parse()
    except (MultiPartException, ValueError, LookupError) as error:
        raise Refusal(400, "Invalid request: not a multipart form") from error
    return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]


def _form_fields(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    fields: dict[str, Any] = dict(pairs)
    # Forms end lines with CR LF; texts in JSON keep their line ends.
    texts = [value.replace("\r\n", "\n") for name, value in pairs if name == "q"]
    if texts:
        fields["q"] = texts if len(texts) > 1 else texts[0]
    return fields
