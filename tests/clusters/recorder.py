"""Records one story on a cluster of one version, in the files that `tests/fixtures/clusters/README.md` describes."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from group_coordinator.watching.observed.offsets_log import OFFSETS_TOPIC, dump_line
from schemas.kafka.record_batches import RawRecord, read_stretch
from tests.clusters.cluster import Broker, running_cluster
from tests.clusters.driver import Driver, Journal
from tests.clusters.programs import PROGRAMS, Programs
from tests.clusters.story import Step
from tests.clusters.versions import Version

_MUCH = re.compile(r'"requestApiKeyName":"(?:FETCH|PRODUCE|API_VERSIONS|\w*QUORUM\w*|BROKER_\w+)"')
_KEPT_OF_MUCH = 0.02


def record(version: Version, steps: list[Step], directory: Path, name: str) -> None:
    """Play the story and write the recording's files, `NAME.*`, into the directory."""
    properties = dict(steps[0].values)
    brokers = int(properties.pop("brokers"))
    directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="cluster-") as work:
        truth, admin = directory / f"{name}.truth.jsonl", directory / f"{name}.admin.jsonl"
        journal = Journal(truth)
        libraries = PROGRAMS.keys() & {step.values.get("library") for step in steps}
        programs = Programs(version, sorted(libraries), Path(work) / "programs") if libraries else None
        with running_cluster(version, Path(work), brokers, properties) as cluster:
            driver = Driver(cluster, journal, version.text, programs)
            try:
                driver.play(steps, Journal(admin))
            finally:
                driver.close()
        for path in (truth, admin):
            _write(path.with_name(f"{path.name}.gz"), path.read_text(encoding="utf-8").splitlines())
            path.unlink()
        for broker in cluster.values():
            _write_logs(broker, directory / (f"{name}.broker-{broker.number}" if brokers > 1 else name))
        _write(directory / f"{name}.offsets.jsonl.gz", _dump(list(cluster.values())))


def _write_logs(broker: Broker, stem: Path) -> None:
    with (broker.logs / "server.log").open("rb") as log, gzip.open(f"{stem}.server.log.gz", "wb") as file:
        shutil.copyfileobj(log, file)
    chance = Random(0)
    with (broker.logs / "request.log").open(encoding="utf-8") as lines:
        kept = (line.rstrip("\n") for line in lines if not _MUCH.search(line) or chance.random() < _KEPT_OF_MUCH)
        _write(Path(f"{stem}.request.log.gz"), kept)


def _dump(brokers: list[Broker]) -> Iterator[str]:
    """Yield the lines of every record of the offsets topic, of the replica that goes furthest, and has most of them."""
    replicas: dict[int, list[RawRecord]] = {}
    for broker in brokers:
        for partition, folder in broker.segments(OFFSETS_TOPIC):
            data = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
            records = read_stretch(data, 0, _no_codec).records
            replicas[partition] = max(records, replicas.get(partition, []), key=_extent)
    for partition, records in sorted(replicas.items()):
        for one in records:
            yield dump_line(partition, one).decode()


def _extent(records: list[RawRecord]) -> tuple[int, int]:
    """One that is behind may have more records: it was not compacted as far."""
    return records[-1].offset if records else -1, len(records)


def _no_codec(codec: int, _: bytes) -> bytes:
    raise AssertionError(f"a batch of the offsets topic is compressed by codec {codec}")


def _write(path: Path, lines: Iterator[str] | list[str]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
