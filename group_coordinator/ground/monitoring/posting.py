"""What is posted to an address that may be a secret: of it only the host is ever told."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from http.client import HTTPMessage
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

POST_TIMEOUT_S = 5.0
_AGAIN = (408, 425, 429)
"""These answers of a server are no refusal; nor are its own failures, from 500 on."""


class Refused(Exception):
    """The other side does not want this message. The text says why."""


class _NoRedirect(HTTPRedirectHandler):
    """Follows none: the address is a secret between two, and an answer from elsewhere is none."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def poster(url: str) -> Callable[[bytes, str], None]:
    """Return what posts a message with its media type. It raises Refused, OSError, HTTPException."""
    parts = urlsplit(url)
    address = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path or "/", parts.query, ""))
    login: Mapping[str, str] = {}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        login = {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
    opener = build_opener(_NoRedirect())

    def post(message: bytes, media_type: str) -> None:
        headers = {"Content-Type": media_type, "User-Agent": "group-coordinator", **login}
        request = Request(address, message, headers, method="POST")
        try:
            with opener.open(request, timeout=POST_TIMEOUT_S):
                pass
        except HTTPError as answer:
            with answer:
                if answer.code < 500 and answer.code not in _AGAIN:
                    hint = ", and redirects are not followed" if answer.code < 400 else ""
                    raise Refused(f"it answers {answer.code}{hint}") from None
                raise

    return post


def failure_reason(failure: Exception) -> str:
    """Say why, without the address."""
    match failure:
        case Refused():
            return str(failure)
        case HTTPError():
            return f"it answers {failure.code}"
        case URLError(reason=OSError() as cause):
            return cause.strerror or type(cause).__name__
    return type(failure).__name__
