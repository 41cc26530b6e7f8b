"""Run a single-node Kafka until Ctrl-C: `python -m group_coordinator.proving.embedded_kafka --port 9092 --data DIR`."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka


def main() -> None:
    """Run a broker until SIGINT or SIGTERM; exit code 1 when it does not start or ends by itself."""
    parser = argparse.ArgumentParser(
        prog="python -m group_coordinator.proving.embedded_kafka", description="Run a single-node Apache Kafka."
    )
    parser.add_argument(
        "--port", type=int, help="port of the PLAINTEXT listener (default: the data's former one, else a free one)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="data directory, kept (default: a temporary one, deleted at the end)")
    parser.add_argument("--heap-mb", type=int, default=320, help="the broker's heap in MiB (default: %(default)s)")
    parser.add_argument(
        "--property", action="append", default=[], metavar="NAME=VALUE", help="a broker setting; repeatable"
    )
    options = parser.parse_args()
    wrong = [text for text in options.property if "=" not in text]
    if wrong:
        parser.error(f"--property {wrong[0]}: write NAME=VALUE")
    properties = dict(text.split("=", 1) for text in options.property)
    stop_asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: stop_asked.append(number))
    try:
        with EmbeddedKafka(
            options.data, port=options.port, host=options.host, heap_mb=options.heap_mb, properties=properties
        ) as kafka:
            print(
                f"Apache Kafka answers at {kafka.bootstrap_servers}; data in {kafka.data_directory}. Ctrl-C stops it.",
                flush=True,
            )
            while not stop_asked:
                kafka.check()
                time.sleep(0.2)
    except RuntimeError as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
