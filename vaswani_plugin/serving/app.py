"""The routes: LibreTranslate's interface, requests of the page, health and metrics; and the page.

The page is one HTML file. It gets texts as JSON and inserts them as text nodes only. The explorer
of `vaswani attention` shows the attention.
"""

import asyncio
import hashlib
import json
import re
import secrets
from base64 import b64encode
from collections.abc import AsyncIterator, Collection, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import cache
from ipaddress import IPv6Address
from pathlib import Path
from time import perf_counter, time
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vaswani_plugin.errors import UserError
from vaswani_plugin.figures.attention_page import attention_data, explorer_parts, filled
from vaswani_plugin.files.lines import read_lines
from vaswani_plugin.serving.texts import (
    Layout,
    Limits,
    Refusal,
    TranslationRequest,
    number_of,
    texts_of,
)
from vaswani_plugin.serving.work import BUSY, BatchOptions, Service, log

Answer = TypeVar("Answer")
GONE = 499  # status, in log and metrics, of a request whose client has closed the connection
TEMPLATE = Path(__file__).with_name("page.html")
MOST_FIELDS = 1000


def read_keys(path: Path) -> frozenset[str]:
    """API keys, one a line; empty lines and those that begin with `#` don't count."""
    lines = (line.strip() for line in read_lines(path))
    keys = frozenset(line for line in lines if line and not line.startswith("#"))
    if not keys:
        raise UserError(f"{path}: no key in it; write one a line, or leave the flag out")
    return keys


class Gate:
    """Passes or refuses a request by its key, and by how many come in a minute; None: no limit."""

    def __init__(self, keys: Collection[str] | None, requests_per_minute: int | None) -> None:
        self.keys, self.requests_per_minute = keys, requests_per_minute
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def check(self, key: Any, address: str) -> None:
        """Count a request by key or address; refuse too many (429), then a wrong key (403)."""
        rate, is_known = self.requests_per_minute, isinstance(key, str) and key in (self.keys or ())
        client = ("key", key) if is_known else ("address", network_of(address))
        limit = RateLimitItemPerMinute(rate or 1)
        if rate is not None and not self._limiter.hit(limit, *client):
            wait = self._limiter.get_window_stats(limit, *client).reset_time - time()
            seconds = str(max(1, int(wait) + 1))
            raise Refusal(429, f"Slowdown: {rate} per 1 minute", {"Retry-After": seconds})
        if self.keys is not None and not is_known:
            missing = "Please contact the server operator to get an API key"
            raise Refusal(403, "Invalid API key" if key else missing)


def network_of(address: str) -> str:
    """What a client can't leave: its IPv4 address, or the /64 of its IPv6 address."""
    try:
        ip = IPv6Address(address)
    except ValueError:
        return address
    return str(ip.ipv4_mapped or int(ip) >> 64)


async def read_fields(request: Request, limits: Limits) -> dict[str, Any]:
    """The fields of a JSON object, a form (both encodings) or the query, by their names.

    `q` is a list if a form has it more than once. A body that begins as a JSON object is one,
    whatever its type is said to be. Refuses a body that is too large (413) or not readable (400).
    """
    size = 0

    async def limited_receive() -> Message:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > limits.body_bytes:  # uvicorn reads and drops the rest
            raise Refusal(413, f"Invalid request: the body exceeds {limits.body_bytes} bytes")
        return message

    limited = Request(request.scope, limited_receive)
    try:
        body = await limited.body()
    except ClientDisconnect as error:
        raise Refusal(GONE, "The client has gone") from error
    media_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    is_form = media_type == "multipart/form-data"
    is_json = media_type == "application/json" or media_type.endswith("+json")
    if not is_form and (is_json or body.lstrip().startswith(b"{")):
        try:
            fields = json.loads(body)
            # JSON allows half a surrogate pair, which is no text.
            json.dumps(fields, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise Refusal(400, "Invalid JSON format") from error
        if not isinstance(fields, dict):
            raise Refusal(400, "Invalid JSON format")
        return fields
    query = _form_fields(request.query_params.multi_items())
    try:
        if is_form:
            most, largest = MOST_FIELDS, limits.body_bytes
            form = await limited.form(max_files=0, max_fields=most, max_part_size=largest)
            return query | _form_fields(form.multi_items())
        # As browsers send it: UTF-8, "+" for a space. curl -d sends UTF-8 bytes as they are.
        text, most = body.decode("utf-8"), MOST_FIELDS
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=most)
        return query | _form_fields(pairs)
    except ValueError as error:
        raise Refusal(
            400, f"Invalid request: no UTF-8 form of at most {MOST_FIELDS} fields"
        ) from error


def _form_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = dict(pairs)
    # Forms end lines with CR LF; texts in JSON keep their line ends.
    if texts := [value.replace("\r\n", "\n") for name, value in pairs if name == "q"]:
        fields["q"] = texts if len(texts) > 1 else texts[0]
    return fields


@cache
def page() -> str:
    """The HTML text; it is the same for all."""
    template, style, script = (
        TEMPLATE.with_suffix(each).read_text(encoding="utf-8") for each in (".html", ".css", ".js")
    )
    return filled(template, {"PAGE_STYLE": style, "PAGE_SCRIPT": script} | explorer_parts())


@cache
def policy() -> str:
    """The value of the page's Content-Security-Policy: it runs nothing but its own code."""
    rules = ["default-src 'none'"]
    for element in ("script", "style"):
        blocks = re.findall(f"<{element}>(.*?)</{element}>", page(), re.DOTALL)
        digests = (hashlib.sha256(block.encode("utf-8")).digest() for block in blocks)
        hashes = (f"'sha256-{b64encode(digest).decode()}'" for digest in digests)
        rules.append(f"{element}-src {' '.join(hashes)}")
    rules += ["connect-src 'self'", "img-src data:", "base-uri 'none'", "form-action 'none'"]
    # Scripts can't turn a string into markup or code.
    types = ["require-trusted-types-for 'script'", "trusted-types 'none'"]
    return "; ".join([*rules, "frame-ancestors 'none'", *types])


async def answer_with_timeout(
    request: Request, seconds: float, work: Coroutine[Any, Any, Answer]
) -> Answer:
    """The result of `work`, which is cancelled after `seconds` (503) or a disconnect (`GONE`)."""

    async def wait_for_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(wait_for_disconnect())
    try:
        await asyncio.wait({task, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if gone.done():
            raise Refusal(GONE, "The client has gone")
        raise Refusal(503, f"The translation takes more than {seconds:g} s", BUSY)
    finally:
        for each in (task, gone):
            each.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await each


class Routes:
    """A method for each path."""

    def __init__(self, service: Service, gate: Gate) -> None:
        self.service, self.gate, self.limits = service, gate, service.limits
        posts = (self.translate, self.detect, self.hypotheses, self.attention)
        gets = (self.languages, self.health, self.metrics)
        self.all = [
            *(Route(f"/{each.__name__}", each, methods=["POST"]) for each in posts),
            *(Route(f"/{each.__name__}", each) for each in gets),  # and HEAD
            Route("/frontend/settings", self.settings),
            Route("/", self.front),
        ]

    async def _read(self, request: Request) -> dict[str, Any]:
        """The fields of a request that the gate lets pass."""
        fields = await read_fields(request, self.limits)
        self.gate.check(fields.get("api_key"), request.client.host if request.client else "")
        return fields

    async def _search(
        self, request: Request, sentences: list[str], options: BatchOptions
    ) -> list[Any]:
        counts = {"lines": len(sentences), "characters": sum(map(len, sentences))}
        request.state.counts = counts
        work = self.service.translate(sentences, options)
        results, counts["subwords"] = await answer_with_timeout(request, self.limits.seconds, work)
        return results

    async def translate(self, request: Request) -> Response:
        """Translate `q`, a text or a list of texts."""
        languages = self.service.languages
        fields = await self._read(request)
        wanted = TranslationRequest.from_fields(fields, languages, self.limits)
        options = BatchOptions(1 + wanted.alternatives)
        sentences = [sentence for layout in wanted.layouts for sentence in layout.sentences]
        results = await self._search(request, sentences, options)
        texts = [[hypothesis.text for hypothesis in each.hypotheses] for each in results]
        return JSONResponse(wanted.answer(texts, languages))

    async def detect(self, request: Request) -> Response:
        """The model's source language with confidence 0: nothing here detects languages."""
        texts_of(await self._read(request), self.limits)
        return JSONResponse([self.service.languages.undetected()])

    async def languages(self, request: Request) -> Response:
        """The languages of the model."""
        return JSONResponse(self.service.languages.listed())

    async def settings(self, request: Request) -> Response:
        """What a web page needs to know."""
        needs_key, languages = self.gate.keys is not None, self.service.languages.listed()
        language = dict(zip(("source", "target"), languages, strict=True))
        keys = {"apiKeys": needs_key, "keyRequired": needs_key}
        files = {"filesTranslation": False, "supportedFilesFormat": []}
        others = {"charLimit": self.limits.characters, "frontendTimeout": 500, "suggestions": False}
        return JSONResponse(keys | files | others | {"language": language})

    async def hypotheses(self, request: Request) -> Response:
        """The best translations of each sentence of `q`: scores, subwords and alignments.

        `layout` has the numbers of the sentences and the strings between them, in order.
        """
        fields = await self._read(request)
        layout = Layout("\n".join(texts_of(fields, self.limits)), self.service.languages)
        nbest = number_of(fields, "nbest", 1, 1 + self.limits.alternatives)
        results = await self._search(request, layout.sentences, BatchOptions(nbest, align=True))
        lines = [vars(x) | {"hypotheses": [h._asdict() for h in x.hypotheses]} for x in results]
        return JSONResponse({"lines": lines, "layout": layout.parts})

    async def attention(self, request: Request) -> Response:
        """The weights of every layer and head for a line `q` and its `translation`."""
        fields = await self._read(request)
        pair = [texts_of(fields, self.limits, name)[0] for name in ("q", "translation")]
        work = self.service.attention(*(" ".join(text.split()) for text in pair))
        weights = await answer_with_timeout(request, self.limits.seconds, work)
        return JSONResponse({"attention": await asyncio.to_thread(attention_data, weights)})

    async def health(self, request: Request) -> Response:
        """Whether it takes requests: 200 or 503. The model may be busy."""
        if self.service.batcher.is_alive:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "the queue has stopped"}, 503)

    async def metrics(self, request: Request) -> Response:
        """Counts in Prometheus' text format."""
        return Response(generate_latest(self.service.registry), media_type=CONTENT_TYPE_LATEST)

    async def front(self, request: Request) -> Response:
        """The page."""
        return HTMLResponse(page(), headers={"Content-Security-Policy": policy()})


async def refuse(request: Request, error: Exception) -> Response:
    """The answer to a refusal, where there is no such path or method, and to a defect, logged."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    if isinstance(error, UserError):
        return JSONResponse({"error": f"Cannot translate text: {error}"}, 400)
    return JSONResponse({"error": "Cannot translate text: the server has an error"}, 500)


def create_app(service: Service, gate: Gate, origins: list[str]) -> ASGIApp:
    """The ASGI application; pages of the web sites `origins` may call it, `*` is all."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service.batcher.start()
        yield
        await service.batcher.stop()

    every = ["*"]
    cors = Middleware(
        CORSMiddleware, allow_origins=origins, allow_methods=every, allow_headers=every
    )
    app = Starlette(
        routes=(routes := Routes(service, gate).all),
        middleware=[cors] if origins else [],
        exception_handlers=dict.fromkeys((HTTPException, UserError, Exception), refuse),
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return Observed(app, service, {route.path for route in routes})


class Observed:
    """Numbers, counts and logs requests; a path that is not among `paths` is "other" there."""

    def __init__(self, app: ASGIApp, service: Service, paths: set[str]) -> None:
        self.app, self.service, self.paths = app, service, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, number, status = perf_counter(), secrets.token_hex(8), 500
        state, extra = scope.setdefault("state", {}), [(b"x-request-id", number.encode())]
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            extra.append((b"connection", b"close"))  # it may hide a second request: RFC 9112, 6.1

        async def observed_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        try:
            await self.app(scope, receive, observed_send)
        finally:
            seconds = perf_counter() - start
            path = scope["path"] if scope["path"] in self.paths else "other"
            counts = state.get("counts", {})
            self.service.request_done(path, status, seconds, **counts)
            fields = {"id": number, "path": path, "status": status, "seconds": round(seconds, 4)}
            log("request", **fields, **counts)
