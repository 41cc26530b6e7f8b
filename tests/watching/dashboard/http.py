"""Requests to a dashboard's server."""

from __future__ import annotations

import http.client
import json
from typing import Any

from group_coordinator.watching.dashboard.server import RunningServer


def port_of(server: RunningServer) -> int:
    return int(server.address.split("?")[0].rstrip("/").rsplit(":", 1)[1])


def ask(server: RunningServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=10)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def document(server: RunningServer, path: str) -> Any:
    status, _, body = ask(server, path)
    assert status == 200, body
    return json.loads(body)
