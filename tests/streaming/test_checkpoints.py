"""A damaged checkpoint is told before the start, with the file and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from streaming import checkpoints, shard_state
from streaming.checkpoints import CheckpointError, Directory, move_remedy, no_rebuild, require_same_buckets
from streaming.config import StreamingConfig
from streaming.shard_state import read_shard_state
from streaming.stored_group import CommittedBatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OFFSETS = 'v1\n{"batchWatermarkMs":5,"batchTimestampMs":6,"conf":{}}\n{"t":{"0":7}}'
COMMITS = 'v1\n{"nextBatchWatermarkMs":5}'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """As Spark writes it."""
    for name, text in {
        "metadata": '{"id":"x"}',
        "offsets/9": OFFSETS,
        "offsets/10": OFFSETS,
        "commits/9": COMMITS,
        "group_buckets": "0\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_one_that_is_whole(checkpoint: Path, spark: SparkSession) -> None:
    (checkpoint / "offsets" / "9").write_text("")  # of a batch that has ended
    (checkpoint / "offsets" / ".10.crc.tmp").touch()
    (checkpoint / "offsets" / "10").write_text("v1\n{}\n-")
    directory = Directory(spark, str(checkpoint))
    directory.require_whole()
    assert directory.buckets() == 0


def test_one_of_a_release_without_buckets(checkpoint: Path, spark: SparkSession) -> None:
    (checkpoint / "group_buckets").unlink()
    assert Directory(spark, str(checkpoint)).buckets() == 0


def test_one_that_is_not_there_yet(tmp_path: Path, spark: SparkSession) -> None:
    Directory(spark, str(tmp_path / "new")).require_whole()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda file: file.write_bytes(b""),
    "cut": lambda file: file.write_text(file.read_text()[:-3]),
    "zeros": lambda file: file.write_bytes(bytes(100)),
    "of another file": lambda file: file.write_text("v1\nhello"),
    "cut after the version": lambda file: file.write_text("v1\n"),
    "a wrong checksum": lambda file: file.with_name(f".{file.name}.crc").write_bytes(b"crc\0\0\0\2\0" + b"sums"),
    "a damaged checksum": lambda file: file.with_name(f".{file.name}.crc").write_bytes(b"crc\0" + bytes(12)),
}


@pytest.mark.parametrize("name", ["offsets/10", "commits/9", "metadata"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_one_that_is_damaged(
    name: str, damage: Callable[[Path], object], checkpoint: Path, spark: SparkSession
) -> None:
    damage(checkpoint / name)
    with pytest.raises(
        CheckpointError, match=rf"{name} of the checkpoint (is damaged|cannot be read).*start once with --rebuild"
    ):
        Directory(spark, str(checkpoint)).require_whole()


@pytest.mark.parametrize("content", [b"", b"\n", b"many", b"\0\0", b"-1", b"\xff\xfe"])
def test_a_number_of_buckets_that_is_none(content: bytes, checkpoint: Path, spark: SparkSession) -> None:
    (checkpoint / "group_buckets").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"group_buckets is damaged.*Write the number into it"):
        Directory(spark, str(checkpoint)).buckets()


def test_whoever_reads_the_state_needs_the_number_of_buckets_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "Directory", lambda spark, path: Mock(path=path, buckets=lambda: 3))
    monkeypatch.setattr(shard_state, "committed_batch", lambda *_: CommittedBatch(7, 90, 100, 1))
    config = StreamingConfig(checkpoint="/checkpoint")
    with pytest.raises(CheckpointError, match=r"group_buckets is 0, but .* /checkpoint/shard-0 was made with 3"):
        read_shard_state(Mock(), config, 0)
    require_same_buckets(Mock(), config.changed(group_buckets=3), 0)


def test_groups_move_between_keys_and_buckets_by_a_rebuild() -> None:
    assert move_remedy(16, 1, "prefix.events", log_begin=0) == (
        "Set it to 16. Or move the groups: name a new directory by --checkpoint and start once with --rebuild, which "
        "decides all events anew from the beginning of the events topic (docs/recovery.md)."
    )


def test_groups_whose_events_are_deleted_do_not_move() -> None:
    remedy = move_remedy(0, 1, "prefix.events", log_begin=50)
    assert remedy == f"Set it to 0. {no_rebuild(1, 'prefix.events', 50)}"
    assert "prefix.events, partition 1, begins at offset 50" in remedy
    assert "start once with --rebuild" not in remedy
    for step in ("`group-coordinator offsets export`", "a new --topic-prefix", "`group-coordinator offsets import`"):
        assert step in remedy


@pytest.mark.parametrize("path", ["made-up://nowhere/x", "a:b", "/proc/nowhere"])
def test_a_directory_that_is_none(path: str, spark: SparkSession) -> None:
    with pytest.raises(CheckpointError, match=rf"The checkpoint directory {path} cannot be (reached|written): "):
        Directory(spark, path).require_writable()
