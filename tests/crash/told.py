"""What a gateway on the coordinator's machine tells its clients: whatever a responder hands to it."""

from __future__ import annotations

import random
import select
import threading
from tempfile import TemporaryDirectory
from types import TracebackType

from group_coordinator.coordinating.answer_sockets import AnswerSocket, HandedAnswer
from tests.crash.outputs import Name, Outputs

_POLL_S = 0.2


class ToldClients:
    """Takes answers between `with` and its end. The requests have ids of this gateway."""

    def __init__(self, seed: int) -> None:
        self._place = TemporaryDirectory()  # with a short name, as a socket needs it
        self.directory = f"{self._place.name}/answers"
        self.answers: list[HandedAnswer] = []
        self._run_id = f"{random.Random(f'gateway-{seed}').getrandbits(64):016x}"
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def request_id_of(self, name: str) -> str:
        """The id of a request that has this name in a log."""
        return f"{self._run_id}-{name.encode().hex()}"

    def __enter__(self) -> ToldClients:
        self._socket = AnswerSocket(self.directory, self._run_id)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._socket.close()
        self._place.cleanup()

    def _run(self) -> None:
        while not self._is_over.is_set():
            select.select([self._socket], [], [], _POLL_S)
            while (datagram := self._socket.receive()) is not None:
                self.answers += datagram.answers

    def require(self, outputs: Outputs, responses: str) -> None:
        """Fails unless each answer, also of a responder that was killed before Kafka had it, is one of these."""
        expected = {
            (record.key, name): record.value
            for stream, output in outputs.items()
            if stream.topic == responses
            for name, record in output
        }
        told: dict[bytes, bytes] = {}
        for answer in self.answers:
            name = Name(int(answer.headers["epoch"]), int(answer.headers["seq"]))
            assert expected.get((answer.request_id, name)) == answer.value, f"{name} was handed over: {answer}"
            assert told.setdefault(answer.request_id, answer.value) == answer.value, f"another answer before {answer}"
