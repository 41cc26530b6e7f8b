"""A process that answers questions, and whose end is not ours: a library in it may abort."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

_END_S = 5.0


class ProcessEndedError(RuntimeError):
    """The process ended before it answered. The message is a sentence."""


class SeparateProcess:
    """A process that answers each question with one answer. It ends with ours, however ours ends.

    `ask` is for one thread; `stop` may come from another.
    """

    def __init__(self, name: str, answer: Callable[..., None], *arguments: Any) -> None:
        """`answer`: a module's function. It gets a connection and the arguments, and answers what it receives there."""
        self._name = name
        self._answer = answer
        self._arguments = arguments
        self._process: Any = None
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        """It guards the process, which two threads start and stop."""
        self._is_stopped = False

    @property
    def process_id(self) -> int | None:
        """None before the first question."""
        return None if self._process is None else self._process.pid

    def ask(self, question: object = None) -> Any:
        """Return the answer. Starts the process where there is none. Raises ProcessEndedError."""
        connection = self._connected()
        try:
            connection.send(question)
            return connection.recv()
        except (EOFError, OSError) as problem:
            self._end()
            raise ProcessEndedError(f"Its process has ended ({self._exit_status()}).") from problem

    def stop(self) -> None:
        """End the process. A question under way raises ProcessEndedError."""
        with self._lock:
            self._is_stopped = True
        self._end()

    def _connected(self) -> Connection:
        with self._lock:
            if self._is_stopped:
                raise ProcessEndedError("Its process was stopped.")
            if self._connection is None:
                # A forked process would share the threads' locks. A spawned one begins anew.
                context = multiprocessing.get_context("spawn")
                self._connection, theirs = context.Pipe()
                self._process = context.Process(
                    target=_main, args=(theirs, self._answer, self._arguments), name=self._name, daemon=True
                )
                self._process.start()
                theirs.close()  # so that its end is heard here
            return self._connection

    def _exit_status(self) -> str:
        code = None if self._process is None else self._process.exitcode
        return signal.Signals(-code).name if code is not None and code < 0 else f"exit status {code}"

    def _end(self) -> None:
        with self._lock:
            process, connection, self._connection = self._process, self._connection, None
        if connection is None:
            return
        process.terminate()
        process.join(_END_S)
        if process.is_alive():
            process.kill()
            process.join()
        connection.close()


def _main(connection: Connection, answer: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both processes, and ours stops this one
    try:
        answer(connection, *arguments)
    except (EOFError, OSError):
        return  # ours is gone
