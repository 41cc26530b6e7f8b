"""Clients in Go, where Go is: in one group with those of the other libraries, and franz-go's own tests of groups."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from group_coordinator.coordinating.gateway.server import Gateway
from schemas.history import MemberExpired, MemberLeft, RequestRefused
from tests.coordinating.gateway.clients.consumers import (
    GO_LIBRARIES,
    GO_MODULE,
    LIBRARIES,
    Consumers,
    compile_go,
    consumers_of,
    share,
    with_kafka_python,
)
from tests.coordinating.gateway.clients.reading import reads, values
from tests.coordinating.gateway.conftest import PARTITIONS, Produce
from tests.coordinating.gateway.pump import Pump

pytestmark = pytest.mark.end_to_end

RECORDS = 1_000
"""That go through each of franz-go's chains of groups; its own default is 500,000."""
OF_GROUPS = (
    "TestGroupETL", "TestGroupSimple", "TestIssue434", "TestAddRemovePartitions", "Test848RegexBrokerResolves",
    "TestSignalSubscriptionChange848", "TestShouldNotify848Restart",
)  # fmt: skip
"""franz-go's own, among them all with the consumer protocol. TestTxnEtl is in `test_transactions`."""


@pytest.fixture(scope="module")
def programs(java_classes: Path) -> Path:
    try:
        compile_go(java_classes)
    except (OSError, subprocess.SubprocessError) as problem:
        pytest.skip(f"no Go, or no modules for it: {problem}")
    return java_classes


@pytest.fixture
def consumers(gateway: Gateway, topic: str, programs: Path) -> Iterator[Consumers]:
    with consumers_of(gateway.bootstrap_servers, topic, programs) as consumers:
        yield consumers


@with_kafka_python
def test_five_libraries_in_one_group(consumers: Consumers, produce: Produce, pump: Pump) -> None:
    """Each record is read once; those in Go leave, one dies, both come back and go on where was committed."""
    members = [
        consumers.start(library, "five", session_timeout_ms=6_000, enable_auto_commit=False)
        for library in (*LIBRARIES, *GO_LIBRARIES)
    ]
    share(members, PARTITIONS, timeout_s=60)
    produce(0, 120)
    reads(120, *members)
    assert values(*members) == list(range(120))
    assert [member.commit() for member in members] == [["committed"]] * 5
    franz, sarama = members[3:]
    franz.close()
    share([*members[:3], sarama], PARTITIONS, timeout_s=60)
    sarama.kill()
    share(members[:3], PARTITIONS, timeout_s=60)
    consumers.close_all()
    produce(120, 150)
    again = [consumers.start(library, "five", session_timeout_ms=6_000) for library in GO_LIBRARIES]
    share(again, PARTITIONS, timeout_s=60)
    reads(30, *again)
    assert values(*again) == list(range(120, 150)), "from where was committed, and nothing else"
    assert [record.member.client_id for record in pump.told(MemberExpired, "five")] == [sarama.name]
    assert len(pump.told(MemberLeft, "five")) == 4
    assert pump.told(RequestRefused, "five") == []


# On a busy machine a commit may be stale. franz-go tries it again half a second later without the partitions that its
# member has lost meanwhile, says REBALANCE_IN_PROGRESS of those, and its test takes that for a failure.
@pytest.mark.flaky(reruns=1)
def test_franz_gos_own_tests_of_groups(gateway: Gateway, programs: Path, tmp_path: Path, pump: Pump) -> None:
    """Chains of groups whose members come and go, by range and cooperative-sticky, dynamic and static,
    and with the consumer protocol: no record twice, none lost."""
    test = tmp_path / "kgo.test"
    subprocess.run(
        ["go", "test", "-c", "-o", str(test), "github.com/twmb/franz-go/pkg/kgo"],
        check=True,
        cwd=GO_MODULE,
        timeout=300,
    )
    environment = {
        **os.environ,
        "KGO_SEEDS": gateway.bootstrap_servers,
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": str(RECORDS),
    }
    done = subprocess.run(
        [str(test), "-test.run", f"^({'|'.join(OF_GROUPS)})$", "-test.v", "-test.timeout", "150s"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if "FAIL" in line or "_test.go:" in line]
    assert done.returncode == 0, "\n".join(line for line in told if "deleting" not in line)
    for passed in (
        "TestGroupETL/range",
        "TestGroupETL/cooperative-sticky",
        "TestGroupETL/cooperative-sticky/static",
        "TestGroupSimple/classic",
        "TestGroupETL/range/848",
        "TestGroupETL/sticky/848",
        "TestGroupETL/sticky/848/static",
        "TestGroupSimple/848",
        "Test848RegexBrokerResolves",
    ):
        assert f"--- PASS: {passed} " in done.stdout
    assert gateway.metrics.in_doubt == 0
    assert [record for record in pump.history if isinstance(record, MemberExpired)] == []
