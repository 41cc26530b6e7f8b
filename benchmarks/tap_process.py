"""A tap or a gateway in a process of its own, so that its CPU time and its memory are its own."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from group_coordinator.coordinating.gateway.config import GatewaySettings, TapSettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.coordinating.gateway.tap import Tap


class Spent(NamedTuple):
    """The cost of a tap."""

    cpu_s: float
    """After its start."""
    lines: int
    """Requests that it wrote down."""
    peak_mb: float


class TapProcess:
    """A process with a tap or gateway before a broker."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.bootstrap_servers: str = pipe.recv()

    def end(self) -> Spent:
        """End it, and say what it took."""
        self._pipe.send("end")
        spent: Spent = self._pipe.recv()
        return spent


@contextmanager
def tap_process(bootstrap_servers: str, *, is_gateway: bool = False) -> Iterator[TapProcess]:
    """`bootstrap_servers`: of the broker. `is_gateway`: instead of a tap; the coordinator's topics must be there."""
    spawn = multiprocessing.get_context("spawn")
    own_end, tap_end = spawn.Pipe()
    with tempfile.TemporaryDirectory() as directory:
        process = spawn.Process(
            target=_serve,
            args=(bootstrap_servers, None if is_gateway else Path(directory) / "tap.log", tap_end),
            daemon=True,
        )
        process.start()
        tap_end.close()
        try:
            yield TapProcess(own_end)
        finally:
            own_end.close()
            process.join()


def _serve(bootstrap_servers: str, log: Path | None, pipe: Connection) -> None:
    listen = "127.0.0.1:0"
    with (
        Gateway(GatewaySettings(listen=listen, bootstrap_servers=bootstrap_servers))
        if log is None
        else Tap(TapSettings(listen=listen, upstream=bootstrap_servers), log)
    ) as front:
        before = time.process_time()
        pipe.send(front.bootstrap_servers)
        try:
            pipe.recv()
        except EOFError:  # who started it has failed
            return
        pipe.send(Spent(time.process_time() - before, front.lines if isinstance(front, Tap) else 0, _peak_mb()))


def _peak_mb() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1_024
