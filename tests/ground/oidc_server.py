"""An OIDC server in this process: it gives tokens that a broker with Kafka's own validator for tests takes."""

from __future__ import annotations

import json
import threading
import time
import urllib.parse
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CLIENT_ID, SECRET = "watcher", "hush / secret"


class OidcServer(ThreadingHTTPServer):
    """It knows one client."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scopes: list[str | None] = []
        """Those that were asked for."""

    @property
    def token_endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"


class _Handler(BaseHTTPRequestHandler):
    server: OidcServer

    def do_POST(self) -> None:
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        login = b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        client_id, secret = map(urllib.parse.unquote, login.split(":"))
        is_known = (client_id, secret, form["grant_type"]) == (CLIENT_ID, SECRET, ["client_credentials"])
        self.server.scopes.append(form.get("scope", [None])[0])
        answer = {"access_token": token_of(client_id), "expires_in": 600} if is_known else {"error": "invalid_client"}
        self.send_response(200 if is_known else 401)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def token_of(name: str, lifetime_s: int = 600) -> str:
    """Return an unsecured JSON Web Token (RFC 7515, A.5)."""
    now_s = int(time.time())
    return ".".join([_part({"alg": "none"}), _part({"sub": name, "iat": now_s, "exp": now_s + lifetime_s}), ""])


def _part(claims: dict[str, object]) -> str:
    return urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


@contextmanager
def oidc_server() -> Iterator[OidcServer]:
    with OidcServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
