"""Until when a dump of the offsets topic has all records, as what lies beside it shows."""

from __future__ import annotations

from datetime import UTC

import pytest

from group_coordinator.proving.recordings.coordinator_log import EMPTY, read_coordinator_logs
from group_coordinator.proving.recordings.coverage import TAKEN_EARLIER, covered_of
from group_coordinator.proving.recordings.expectations import LATE_MS, Covered
from group_coordinator.proving.recordings.offsets_log import read_offsets_log
from tests.watching.observed.recorded import CLUSTERS, files


@pytest.mark.parametrize("name", ["failover-3.7", "hanging-4.1", "lifecycle-3.4", "migration-refused"])
def test_lines_of_groups_that_were_left_show_that_a_dump_was_taken_before(name: str) -> None:
    """Each has a record: where it would lie behind the last one, the dump does not go so far. Nobody commits there."""
    logs = read_coordinator_logs(files(name, "server.log.gz"), UTC)
    records = read_offsets_log(CLUSTERS / f"{name}.offsets.jsonl.gz").by_group
    assert covered_of({}, records, logs).records_until_ms == Covered().records_until_ms
    emptied_ms = sorted(
        entry.time_ms for of_group in logs.entries.values() for entry in of_group if entry.kind == EMPTY
    )
    left_ms = emptied_ms[-TAKEN_EARLIER] - 2 * LATE_MS
    cut = {group_id: [one for one in of if one.timestamp_ms < left_ms] for group_id, of in records.items()}
    last_ms = max(one.timestamp_ms for of_group in cut.values() for one in of_group)
    assert covered_of({}, cut, logs).records_until_ms == last_ms
