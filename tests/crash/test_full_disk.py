"""The disk of the checkpoint is full: the app says so and ends, and nothing is lost once there is room again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.records_file import Record
from streaming.config import StreamingConfig
from tests.crash.coordinators import append, make_topics
from tests.crash.outputs import count, events_of, expected_of, has_written, require_same, written_of
from tests.crash.runner import App
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.random_log import make_log
from tests.waiting import wait_until

DISK_MB = 8
TIMEOUT_S = 120.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which can be filled without harm."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("needs the right to mount a file system")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))


@pytest.mark.end_to_end
@pytest.mark.spark
def test_a_full_disk_is_told_and_nothing_is_lost(
    kafka: EmbeddedKafka, topic_prefix: str, small_disk: Path, tmp_path: Path
) -> None:
    config = StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers, topic_prefix=topic_prefix, checkpoint=str(small_disk / "checkpoint"),
        responses_partitions=8, offsets_partitions=4, shuffle_partitions=1, max_events_per_batch=20, ticker=False,
        **SETTINGS,
    )  # fmt: skip
    make_topics(config)
    log: list[Record] = make_log(9, groups=2, mixed_groups=2, requests=150)
    append(config, log[:60])
    app = App(config, tmp_path)
    app.start()
    try:
        wait_until(lambda: app.exit_code() is not None or has_written(config, 21), TIMEOUT_S, app.said)
        fill(small_disk)
        append(config, log[60:])
        wait_until(lambda: app.exit_code() is not None, TIMEOUT_S, app.said)
        assert app.exit_code() == 1
        assert "No space left on device" in app.said()
        assert len(app.said().split("The query of shard 0 failed.")[1].splitlines()) < 30

        app.start()
        wait_until(lambda: app.exit_code() is not None, TIMEOUT_S, app.said)
        assert app.exit_code() == 1
        assert (
            f"The checkpoint directory {small_disk}/checkpoint/shard-0 cannot be written: No space left on device"
            in app.said()
        )

        (small_disk / "filler").unlink()
        expected = expected_of(config, events_of(config))
        app.start()
        wait_until(lambda: has_written(config, count(expected)), TIMEOUT_S, app.said)
        require_same(written_of(config).outputs, expected)
        assert app.stop() == 0
    finally:
        app.kill()
