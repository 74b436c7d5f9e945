"""The routes: LibreTranslate's interface, requests of the page, health and metrics; and the page.

The page is one HTML file. It gets texts as JSON and inserts them as text nodes only. The explorer
of `vaswani attention` shows the attention.
"""

import asyncio
import hashlib
import re
import secrets
from base64 import b64encode
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vaswani_plugin.figures.attention_page import attention_data, explorer_parts, filled
from vaswani_plugin.serving.batching import BUSY, Options
from vaswani_plugin.serving.bodies import read_fields
from vaswani_plugin.serving.limits import Refusal
from vaswani_plugin.serving.monitoring import CONTENT_TYPE
from vaswani_plugin.serving.service import Service
from vaswani_plugin.serving.texts import (
    Layout,
    TranslationRequest,
    check_size,
    language_name,
    number_of,
    texts_of,
    undetected,
)

Answer = TypeVar("Answer")
GONE = 499
"""Status of a request whose client has closed the connection, in the log and in the metrics."""
METHODS = {"GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"}
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
BODIES = {
    "/translate": "q source target format alternatives api_key",
    "/detect": "q api_key",
    "/hypotheses": "q nbest api_key",
    "/attention": "q translation api_key",
}
"""Paths of requests with a body, and its fields."""
TEMPLATE = Path(__file__).with_name("page.html")


@cache
def page() -> str:
    """The HTML text; it is the same for all."""
    parts = {
        f"PAGE_{name}": TEMPLATE.with_suffix(suffix).read_text(encoding="utf-8")
        for name, suffix in (("STYLE", ".css"), ("SCRIPT", ".js"))
    }
    return filled(TEMPLATE.read_text(encoding="utf-8"), parts | explorer_parts())


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
    """The result of `work`; it is cancelled if it takes too long or the client disconnects.

    Args:
        request: of the client.
        seconds: most time for `work`.
        work: makes the answer.

    Raises:
        Refusal: 503 after `seconds`, `GONE` after a disconnect.
        Exception: any exception of `work`.
    """

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
    """A method for each path.

    Args:
        service: does the work.
    """

    def __init__(self, service: Service) -> None:
        self.service = service

    def add_to(self, app: FastAPI) -> set[str]:
        """Register the paths; returns them."""
        kinds = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
        for path, fields in BODIES.items():
            schema = {"type": "object", "properties": {name: {} for name in fields.split()}}
            content = {kind: {"schema": schema} for kind in kinds}
            body = {"requestBody": {"content": content}}
            app.post(path, openapi_extra=body)(getattr(self, path[1:]))
        plain = {
            "/languages": self.languages,
            "/frontend/settings": self.frontend_settings,
            "/health": self.health,
            "/metrics": self.metrics,
            "/": self.front,
        }
        for path, method in plain.items():
            app.get(path, include_in_schema=path != "/")(method)
            app.head(path, include_in_schema=False)(method)
        return {*BODIES, *plain, "/spec"}

    async def _read(self, request: Request) -> dict[str, Any]:
        """The fields of a request; raises a Refusal if the gate does not let it pass."""
        fields = await read_fields(request, self.service.limits)
        address = request.client.host if request.client else ""
        self.service.gate.check(fields.get("api_key"), address)
        return fields

    async def _search(self, request: Request, sentences: list[str], options: Options) -> list[Any]:
        check_size(len(sentences), self.service.limits.queue)
        self.service.batcher.admit(len(sentences))
        counts = {"lines": len(sentences), "characters": sum(map(len, sentences))}
        request.state.counts = counts
        work = self.service.translate(sentences, options)
        found, subwords = await answer_with_timeout(request, self.service.limits.seconds, work)
        counts["subwords"] = subwords
        return found

    async def translate(self, request: Request) -> Response:
        """Translate `q`, a text or a list of texts."""
        service = self.service
        fields = await self._read(request)
        wanted = TranslationRequest.from_fields(fields, service.languages, service.limits)
        options = Options(nbest=1 + wanted.alternatives)
        found = await self._search(request, wanted.sentences, options)
        texts = [[hypothesis.text for hypothesis in each.hypotheses] for each in found]
        return JSONResponse(wanted.answer(texts, service.languages.source))

    async def detect(self, request: Request) -> Response:
        """The model's source language with confidence 0: nothing here detects languages."""
        texts_of(await self._read(request), self.service.limits)
        return JSONResponse([undetected(self.service.languages.source)])

    async def languages(self) -> Response:
        """The languages of the model."""
        return JSONResponse(self.service.languages.listed())

    async def frontend_settings(self) -> Response:
        """What a web page needs to know."""
        service = self.service
        codes = {side: getattr(service.languages, side) for side in ("source", "target")}
        settings = {
            "apiKeys": service.needs_key,
            "charLimit": service.limits.characters,
            "filesTranslation": False,
            "frontendTimeout": 500,
            "keyRequired": service.needs_key,
            "language": {k: {"code": c, "name": language_name(c)} for k, c in codes.items()},
            "suggestions": False,
            "supportedFilesFormat": [],
        }
        return JSONResponse(settings)

    async def hypotheses(self, request: Request) -> Response:
        """The best translations of each sentence of `q`: scores, subwords and alignments.

        `layout` tells where the sentences stand: their numbers, and the strings between them.
        """
        limits = self.service.limits
        fields = await self._read(request)
        layout = Layout("\n".join(texts_of(fields, limits)), self.service.languages)
        nbest = max(1, number_of(fields, "nbest", 1, 1 + limits.alternatives))
        found = await self._search(request, layout.sentences, Options(nbest, align=True))
        lines = [hypothesis_fields(each) for each in found]
        return JSONResponse({"lines": lines, "layout": layout.parts})

    async def attention(self, request: Request) -> Response:
        """The weights of every layer and head for a line `q` and its `translation`."""
        limits = self.service.limits
        fields = await self._read(request)
        pair = [texts_of(fields, limits, name)[0] for name in ("q", "translation")]
        work = self.service.attention(*(" ".join(text.split()) for text in pair))
        found = await answer_with_timeout(request, limits.seconds, work)
        return JSONResponse({"attention": await asyncio.to_thread(attention_data, found)})

    async def health(self) -> Response:
        """Whether it takes requests: 200, or 503 when it stops. The model may be busy."""
        if self.service.is_stopping:
            return JSONResponse({"status": "stopping"}, 503)
        is_alive = self.service.batcher.is_alive
        return JSONResponse(
            {"status": "ok" if is_alive else "the queue has stopped"}, 200 if is_alive else 503
        )

    async def metrics(self) -> Response:
        """Counts in Prometheus' text format."""
        return Response(self.service.monitor.text(), media_type=CONTENT_TYPE)

    async def front(self) -> Response:
        """The page."""
        return HTMLResponse(page(), headers={"Content-Security-Policy": policy()})


async def refuse(request: Request, error: Exception) -> Response:
    """The answer to a `Refusal`, or where there is no such path or method."""
    if isinstance(error, Refusal):
        return JSONResponse({"error": error.message}, error.status, error.headers)
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def fail(request: Request, error: Exception) -> Response:
    """The answer to a defect; uvicorn logs it."""
    return JSONResponse({"error": "Cannot translate text: the server has an error"}, 500)


def create_app(service: Service, origins: list[str]) -> ASGIApp:
    """The ASGI application of the service.

    Args:
        service: does the work.
        origins: web sites whose pages may call it, such as `https://example.org`; `*`: all.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.batcher.start()
        yield
        await service.batcher.stop(service.limits.stop_seconds)

    app = FastAPI(
        title="vaswani serve",
        summary="Translation by a Transformer, with LibreTranslate's interface",
        openapi_url="/spec",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        exception_handlers={Refusal: refuse, HTTPException: refuse, Exception: fail},
    )
    if origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["*"]
        )
    return Observed(app, service, Routes(service).add_to(app))


def hypothesis_fields(translation: Any) -> dict[str, Any]:
    """An `inference.results.Translation` as JSON."""
    names = ("text", "score", "tokens", "token_scores", "alignment")
    return {
        "source": translation.source,
        "source_tokens": list(translation.source_tokens),
        "hypotheses": [
            {name: getattr(hypothesis, name) for name in names}
            for hypothesis in translation.hypotheses
        ],
    }


class Observed:
    """Numbers, counts and logs the requests of an application, and adds our headers to its answers.

    Args:
        app: the application.
        service: has the counts and the log.
        paths: named in the counts and the log; any other path is "other" there.
    """

    def __init__(self, app: ASGIApp, service: Service, paths: set[str]) -> None:
        self.app, self.service, self.paths = app, service, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, number = perf_counter(), secrets.token_hex(8)
        status = 500
        state = scope.setdefault("state", {})

        async def observed_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = self._headers(message["headers"], number)
            await send(message)

        app: ASGIApp = self.app
        if self.service.count_connections() > self.service.limits.connections:
            headers = BUSY | {"Connection": "close"}
            app = JSONResponse({"error": "Too many clients: try again later"}, 503, headers)
        try:
            await app(scope, receive, observed_send)
        finally:
            seconds = perf_counter() - start
            path = scope["path"] if scope["path"] in self.paths else "other"
            counts = state.get("counts", {})
            self.service.monitor.request_done(path, status, seconds, **counts)
            method = scope["method"] if scope["method"] in METHODS else "other"
            fields = {"id": number, "method": method, "path": path, "status": status}
            self.service.log.write("request", **fields, seconds=round(seconds, 4), **counts)

    def _headers(self, headers: list[tuple[bytes, bytes]], number: str) -> list[Any]:
        ours = HEADERS | {"X-Request-Id": number}
        names = {name.lower() for name, _ in headers}
        if b"content-security-policy" not in names:
            ours["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
        if self.service.is_stopping and b"connection" not in names:
            ours["Connection"] = "close"
        return [*headers, *((k.lower().encode(), v.encode()) for k, v in ours.items())]
