"""Evidence of another cluster that is given by mistake is left out, and said."""

from __future__ import annotations

import gzip
from datetime import UTC
from pathlib import Path

import pytest

from group_coordinator.command_line.errors import CommandError
from group_coordinator.watching.broker_logs.broker_log import BrokerLog
from group_coordinator.watching.commands.observed_source import observed_source
from group_coordinator.watching.watch.following_logs import FollowedLogs
from tests.watching.observed.recorded import CLUSTERS

IDS = {"old-2.8": "4pFwibn7S5WSOTk0EUqM8w", "old-3.9": "zOu5ZlK-TgWf4FNQllmKrg", "roll-4.2": "Jw8_2JgPQYaf42d2EFea_g"}


def dump(name: str, directory: Path, cluster_id: str | None) -> Path:
    lines = gzip.decompress((CLUSTERS / f"{name}.offsets.jsonl.gz").read_bytes())
    path = directory / f"{name}.offsets.jsonl"
    path.write_bytes(
        lines if cluster_id is None else lines.replace(b"{", b'{"cluster_id":"%s",' % cluster_id.encode(), 1)
    )
    return path


def log_of(name: str) -> str:
    return str(CLUSTERS / f"{name}.server.log.gz")


@pytest.mark.parametrize("name", IDS)
def test_brokers_say_which_cluster_they_are_of(name: str) -> None:
    log = BrokerLog(UTC)
    log.read_file(Path(log_of(name)))
    (file,) = log.files
    assert file.cluster_ids == (IDS[name],)


def test_a_log_of_another_cluster_is_left_out_and_said(tmp_path: Path) -> None:
    of_dump = dump("old-3.9", tmp_path, IDS["old-3.9"])
    right, both, alone = (
        observed_source([of_dump], logs, None, UTC, UTC)
        for logs in ([log_of("old-3.9")], [log_of("old-3.9"), log_of("old-2.8")], [log_of("old-2.8")])
    )
    assert both.history == right.history
    assert alone.history == observed_source([of_dump], [], None, UTC, UTC).history
    for told in (both, alone):
        (doubt,) = [doubt for doubt in told.doubts if IDS["old-2.8"] in doubt]
        assert "old-2.8.server.log.gz" in doubt
        assert IDS["old-3.9"] in doubt
    assert not [doubt for doubt in right.doubts if "cluster" in doubt]


def test_logs_of_several_clusters_are_said_where_the_dump_names_none(tmp_path: Path) -> None:
    told = observed_source([dump("old-3.9", tmp_path, None)], [log_of("old-3.9"), log_of("old-2.8")], None, UTC, UTC)
    (doubt,) = [doubt for doubt in told.doubts if "several clusters" in doubt]
    assert IDS["old-3.9"] in doubt
    assert IDS["old-2.8"] in doubt


def test_dumps_of_several_clusters_are_refused(tmp_path: Path) -> None:
    dumps = [dump(name, tmp_path, IDS[name]) for name in ("old-2.8", "old-3.9")]
    with pytest.raises(CommandError, match="several clusters"):
        observed_source(dumps, [], None, UTC, UTC)


def test_a_client_names_no_cluster(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(
        "[2026-11-22 18:10:54,580] INFO [TransactionCoordinator id=1] Initialized transactionalId INFO Cluster ID=x "
        "with producerId 1 (kafka.x.Y)\n"
        "[2026-11-22 18:10:54,580] INFO [TransactionCoordinator id=1] Initialized transactionalId x\n"
        "[2026-11-22 18:10:54,580] INFO Cluster ID = forged\n"
        " with producerId 1 (kafka.x.Y)\n"
    )
    log = BrokerLog(UTC)
    log.read_file(path)
    assert log.files[0].cluster_ids == ()


def test_live_a_log_of_another_cluster_is_left_out_and_said() -> None:
    logs = FollowedLogs([log_of("old-3.9"), log_of("old-2.8")], UTC)
    logs.of_cluster = IDS["old-3.9"]
    found = []
    while lines := logs.look():
        found += lines
    assert {line.file for line in found} == {"old-3.9.server.log"}
    (said,) = logs.foreign.values()
    assert IDS["old-2.8"] in said
