"""The server's addresses: the page, its files, the API, and what is new as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from group_coordinator.ground.http_server.access import Access, App
from group_coordinator.watching.dashboard.api_routes import BASE, Operation, answer, openapi, operations
from group_coordinator.watching.dashboard.documents import Documents, NotFound
from group_coordinator.watching.dashboard.news import News
from group_coordinator.watching.dashboard.page import MEDIA_TYPES, script_hashes, server_page, static_names, static_text
from group_coordinator.watching.dashboard.sources import Source

_GZIP_MIN_BYTES = 1_000
_KEEP_ALIVE_S = 15.0


def application(documents: Documents, source: Source, news: News, token: str | None = None) -> App:
    """The ASGI app. `source` has been started; it is asked how far it has come."""

    async def stream(_: Request) -> Response:
        return StreamingResponse(_events(news), media_type="text/event-stream", headers={"cache-control": "no-store"})

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        gathering = asyncio.create_task(news.gather())
        try:
            yield
        finally:
            gathering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gathering

    routes = [
        *_page_routes(),
        *_api_routes(operations(documents, source)),
        Route("/api/stream", stream),
    ]
    return Access(Starlette(routes=routes, lifespan=lifespan), name="dashboard", token=token, local_only=token is None)


def _page_routes() -> list[Route]:
    page = server_page()
    policy = (
        f"default-src 'none'; script-src 'self' {script_hashes(page)}; style-src 'self' 'unsafe-inline'; img-src "
        "'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {
        "content-security-policy": policy,
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cache-control": "no-cache",
    }
    texts = {name: static_text(name).encode() for name in static_names()}

    async def show(_: Request) -> Response:
        return Response(page, media_type="text/html", headers=headers)

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in texts:
            return Response(status_code=404)
        return _packed(request, texts[name], MEDIA_TYPES[name[name.rindex(".") :]])

    return [Route("/", show), Route("/static/{name}", static)]


def _api_routes(all_operations: tuple[Operation, ...]) -> list[Route]:
    description = openapi(all_operations)
    return [
        Route(f"{BASE}/openapi.json", _json(lambda _: description)),
        *(Route(f"{BASE}{each.path}", _json(partial(answer, each))) for each in all_operations),
    ]


def _json(make: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """A document as JSON. What takes time runs in a thread: the stream goes on meanwhile."""

    def encode(request: Request) -> Response:
        try:
            return _packed(request, msgspec.json.encode(make(request)), "application/json", "no-store")
        except NotFound as problem:
            return Response(msgspec.json.encode({"error": str(problem)}), 404, media_type="application/json")
        except ValueError as problem:
            return Response(msgspec.json.encode({"error": str(problem)}), 400, media_type="application/json")

    async def endpoint(request: Request) -> Response:
        return await asyncio.to_thread(encode, request)

    return endpoint


def _packed(request: Request, body: bytes, media_type: str, cache: str = "no-cache") -> Response:
    headers = {"cache-control": cache, "vary": "accept-encoding", "x-content-type-options": "nosniff"}
    if len(body) >= _GZIP_MIN_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        body = gzip.compress(body, compresslevel=1)
        headers["content-encoding"] = "gzip"
    return Response(body, media_type=media_type, headers=headers)


async def _events(news: News) -> AsyncIterator[bytes]:
    with news.listener() as queue:
        yield b"retry: 2000\n\n"
        while True:
            try:
                item = await asyncio.wait_for(queue.get(), _KEEP_ALIVE_S)
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if item is None:
                return
            yield b"event: " + item[0].encode() + b"\ndata: " + item[1] + b"\n\n"
