"""The main function of a process that answers with doubles."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection


def double(connection: Connection, factor: int) -> None:
    """Answers numbers, aborts at `abort`, and is silent at `silence`."""
    while True:
        question = connection.recv()
        if question == "abort":
            os.abort()
        if question == "silence":
            time.sleep(600)
        connection.send(question * factor)
