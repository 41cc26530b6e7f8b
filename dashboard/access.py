"""Who may look: on loopback whoever is on this machine, elsewhere whoever has the token."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlencode

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "group_coordinator_dashboard"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that is bound to this."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Access:
    """Lets requests through, or answers 401, 403 and 405.

    Without a token the Host header must name this machine: a page elsewhere that had its name point here (DNS rebinding)
    is refused. With one, it comes as `Authorization: Bearer ...`, or once in the address, and then in a cookie.
    """

    def __init__(self, app: App, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["method"] not in ("GET", "HEAD"):
            await _answer(send, 405, "This dashboard only shows; it changes nothing.")
        elif self._token is None:
            host = headers.get("host", "").rsplit(":", 1)[0] if not headers.get("host", "").endswith("]") else headers["host"]
            if is_loopback(host):
                await self._app(scope, receive, send)
            else:
                await _answer(send, 403, "This dashboard answers to localhost only.")
        elif self._is_token(_given(headers)):
            await self._app(scope, receive, send)
        else:
            await self._first_visit(scope, send)

    async def _first_visit(self, scope: Scope, send: Send) -> None:
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given = query.pop("token", [""])[0]
        if not self._is_token(given):
            await _answer(send, 401, "This dashboard needs its token: open the address that was printed when it started.")
            return
        # The token leaves the address, so that it is in no history and no screenshot.
        rest = urlencode(query, doseq=True)
        where = scope["path"] + (f"?{rest}" if rest else "")
        cookie = f"{COOKIE}={given}; Path=/; HttpOnly; SameSite=Strict"
        await _answer(send, 303, "", [(b"location", where.encode("latin-1")), (b"set-cookie", cookie.encode("latin-1"))])

    def _is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())


def _given(headers: dict[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token
    morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    return "" if morsel is None else morsel.value


async def _answer(send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    body = text.encode()
    plain = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*plain, *(headers or [])]})
    await send({"type": "http.response.body", "body": body})
