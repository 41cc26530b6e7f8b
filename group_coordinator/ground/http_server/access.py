"""Access needs the token or, on loopback, a client on this machine."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Collection, Iterator, MutableMapping
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from schemas.http_host import names_this_machine

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "group_coordinator_dashboard"
_READING = ("GET", "HEAD")


class Access:
    """Lets requests through that may come in, or answers 401, 403 and 405.

    Where only this machine may look, the Host header must name it: a page elsewhere that had its name point here (DNS
    rebinding) is refused. A request without the header comes from no browser. A token comes as `Authorization: Bearer
    ...`, or once in the address; from then on a cookie with the token's hash says that it was there.
    """

    def __init__(
        self, app: App, *, name: str, token: str | None = None, local_only: bool, methods: Collection[str] = _READING
    ) -> None:
        """`name`: how the refusals call what is behind. With a token, `local_only` does not matter. `methods`: those
        of HTTP that it takes."""
        self._methods = methods
        self._app = app
        self._name = name
        self._local_only = local_only
        self._token = token
        # A token may have characters that no cookie can hold, and need not lie in the browser's store.
        self._cookie = None if token is None else hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["method"] not in self._methods:
            await _answer(send, 405, f"This {self._name} only shows; it changes nothing.")
        elif self._token is None:
            if not self._local_only or names_this_machine(headers.get("host", "localhost")):
                await self._app(scope, receive, send)
            else:
                await _answer(send, 403, f"This {self._name} answers to localhost only.")
        elif self._is_token(_bearer(headers)) or any(map(self._is_of_token, _cookies(headers))):
            await self._app(scope, receive, send)
        else:
            await self._first_visit(scope, send)

    async def _first_visit(self, scope: Scope, send: Send) -> None:
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given = query.pop("token", [""])[0]
        if not self._is_token(given):
            await _answer(
                send, 401, f"This {self._name} needs its token: open the address that was printed when it started."
            )
            return
        # The token leaves the address, so that it is in no history and no screenshot.
        rest = urlencode(query, doseq=True)
        # One slash at the beginning: two would name another host.
        where = "/" + quote(scope["path"].lstrip("/"), safe="/") + (f"?{rest}" if rest else "")
        cookie = f"{COOKIE}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"
        await _answer(send, 303, "", [(b"location", where.encode()), (b"set-cookie", cookie.encode())])

    def _is_token(self, given: str) -> bool:
        return _same(given, self._token)

    def _is_of_token(self, cookie: str) -> bool:
        """The token's hash, or the token itself, which the cookies of older releases have."""
        return _same(cookie, self._cookie) or self._is_token(cookie)


def _same(given: str, wanted: str | None) -> bool:
    return wanted is not None and hmac.compare_digest(
        given.encode(errors="surrogateescape"), wanted.encode(errors="surrogateescape")
    )


def _bearer(headers: dict[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _cookies(headers: dict[str, str]) -> Iterator[str]:
    """Those of our name. Cookies know no ports, so others of the same host may have any form, and this name too."""
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.partition("=")
        if name.strip() == COOKIE:
            yield value.strip()


async def _answer(send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]] | None = None) -> None:
    body = text.encode()
    plain = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*plain, *(headers or [])]})
    await send({"type": "http.response.body", "body": body})
