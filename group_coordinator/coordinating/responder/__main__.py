"""The process of one responder; `processes` starts it."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading

from confluent_kafka import KafkaException

from group_coordinator.coordinating.answer_sockets import AnswerSender, AnswerSocketError
from group_coordinator.coordinating.responder.loop import Responder
from group_coordinator.coordinating.responder.permission import (
    ResponderAloneError,
    ResponderError,
    ResponderRefusedError,
)
from group_coordinator.coordinating.responder.protocol import ExitCode, ResponderStatus, encode_line, read_start
from group_coordinator.coordinating.responder.ticking import ResponderTicker
from group_coordinator.ground.system.processor_time import ask_for_short_slices
from streaming.config import StreamingConfig
from streaming.core_hash import core_hash

_log = logging.getLogger(__name__)


def main() -> ExitCode:
    """Answer until standard input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # who has started it hears them, and ends it in order
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    try:
        start = read_start(sys.stdin.buffer)
    except EOFError:
        return ExitCode.ASKED
    ask_for_short_slices()
    ended = threading.Event()
    threading.Thread(target=_wait_for_end, args=(ended,), daemon=True).start()
    config = StreamingConfig(**start.settings)
    operator_config = config.operator_config(start.partitions, start.shard, is_live=True)
    responder = Responder(
        operator_config,
        config.client_properties,
        start.state,
        core_hash(operator_config),
        alone_max_ms=config.responder_alone_max_ms,
        ticker=ResponderTicker(config, start.shard) if start.may_tick else None,
        sender=_sender(config.answers_directory),
        report=_report,
    )
    shard = start.shard
    del start  # the groups as they were at the start would stay in memory
    gc.collect()
    gc.freeze()  # what is there now stays: to look through it would hold up answers for 20 ms, now and then
    try:
        responder.run(lambda: not ended.is_set())
    except ResponderRefusedError as reason:
        _log.error("%s", reason)
        return ExitCode.REFUSED
    except ResponderAloneError as reason:
        _log.warning("%s", reason)
        return ExitCode.ALONE
    except (ResponderError, KafkaException) as problem:
        _log.warning("The responder of shard %d ends: %s", shard, problem)
        return ExitCode.FAILED
    return ExitCode.ASKED


def _sender(directory: str | None) -> AnswerSender | None:
    try:
        return None if directory == "" else AnswerSender(directory)
    except AnswerSocketError as reason:
        _log.warning("Answers go through Kafka alone, in milliseconds more: %s.", reason)
        return None


def _report(status: ResponderStatus) -> None:
    sys.stdout.buffer.write(encode_line(status) + b"\n")
    sys.stdout.buffer.flush()


def _wait_for_end(ended: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 1):  # not by the buffer: its lock would be held when the process ends
        pass
    ended.set()


if __name__ == "__main__":
    sys.exit(main())
