"""How long a commit in a transaction takes through the gateway, beside the broker's own.

    python -m benchmarks.gateway_transactions [--transactions 200]

`group-coordinator run --responder`, a relay and a gateway are processes of their own. Apache Kafka's own client commits
an offset in each transaction, at the broker and through the gateway in turns: the version of Spark's connector, which
knows transactions of version 1, and the broker's version, with those of version 2 (KIP-890). The bar is that the median
of `sendOffsetsToTransaction` through the gateway is at most five times the broker's.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from confluent_kafka.admin import NewTopic

from benchmarks.arguments import command_parser
from benchmarks.gateway_latency import HEAP_MB, JAVA_OPTIONS, TOPIC, command
from benchmarks.jvm import MEASURED, SOURCES, compiled
from group_coordinator.coordinating.jars.resolving import jars_directory
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port

FACTOR_MAX = 5.0
_WARM_UP = 100


def main() -> None:
    """Run the benchmark and print what came out."""
    parser = command_parser("gateway_transactions", __doc__)
    parser.add_argument("--transactions", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory, port = Path(name), free_port()
        with EmbeddedKafka(directory / "kafka", heap_mb=HEAP_MB, java_options=JAVA_OPTIONS) as kafka:
            at = ("--bootstrap-servers", kafka.bootstrap_servers)
            responder = ("--checkpoint", str(directory / "checkpoint"), "--responder")
            listen = ("--listen", f"127.0.0.1:{port}", "--transactions")
            admin = new_admin_client({"bootstrap.servers": kafka.bootstrap_servers})
            admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
            with (
                command(directory / "coordinator.log", "A responder answers", "run", *at, *responder),
                command(directory / "relay.log", "Relaying", "relay", *at),
                command(directory / "gateway.log", "is ready", "gateway", *at, *listen),
            ):
                _compare(options.transactions, kafka.bootstrap_servers, f"127.0.0.1:{port}")


def _compare(transactions: int, *addresses: str) -> None:
    older = sorted((jars_directory() / "spark").glob("kafka-clients-3.*.jar"))
    with compiled(SOURCES / "transactions") as java:
        *command_line, class_path = java(*MEASURED, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
        for version, jars in ((1, older), (2, [])):
            done = subprocess.run(
                [*command_line, os.pathsep.join([*map(str, jars), class_path]), "TransactionBenchmark", TOPIC,
                 str(_WARM_UP), str(transactions), *addresses],
                check=True, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            at_broker, at_gateway = ([int(us) / 1_000 for us in line.split()] for line in done.stdout.splitlines())
            for what, broker_ms, gateway_ms in zip(("commit", "whole transaction"), at_broker, at_gateway, strict=True):
                verdict = "holds" if gateway_ms <= FACTOR_MAX * broker_ms else "MISSED"
                print(
                    f"transactions of version {version}, {what}: p50 {gateway_ms:.1f} ms, at the broker "
                    f"{broker_ms:.1f} ms: {gateway_ms / broker_ms:.1f} times (at most {FACTOR_MAX:.0f} for a commit: "
                    f"{verdict})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
