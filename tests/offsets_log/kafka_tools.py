"""Kafka's own command-line tools, as a user has them."""

from __future__ import annotations

from pathlib import Path

from tests import kafka_programs


def run_tool(name: str, *arguments: str, passing_over: str | None = None) -> str:
    """What a tool (a class of Kafka's) prints. A tool that fails fails the test with what it said.

    `passing_over`: what is in a stack trace that the tool prints and takes no harm from.
    """
    done = kafka_programs.run_tool(name, *arguments, log_level="warn")
    assert done.returncode == 0, f"{name} {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    assert "Exception" not in done.stderr or (passing_over is not None and passing_over in done.stderr), done.stderr
    return done.stdout


def console_consumer(bootstrap_servers: str, topic: str, formatter: str, records: int) -> list[str]:
    """The lines that kafka-console-consumer prints of this many records, from the beginning."""
    printed = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap_servers, "--topic", topic,
        "--from-beginning", "--max-messages", str(records), "--timeout-ms", "60000",
        "--formatter", f"org.apache.kafka.tools.consumer.{formatter}",
    )  # fmt: skip
    return printed.splitlines()


def dump_offsets_log(data_directory: Path, topic: str) -> str:
    """What kafka-dump-log prints of a topic of group records, of all its partitions on a broker of this machine."""
    files = sorted(data_directory.rglob(f"{topic}-*/*.log"))
    return run_tool("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", ",".join(map(str, files)))


def consumer_groups(bootstrap_servers: str, *arguments: str) -> str:
    """What kafka-consumer-groups prints.

    Of a file with a column for the group it first tries the form without one, and prints that exception (Kafka 4.3).
    """
    name = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    return run_tool(name, "--bootstrap-server", bootstrap_servers, *arguments, passing_over="CsvRecordNoGroup")
