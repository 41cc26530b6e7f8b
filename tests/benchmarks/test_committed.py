"""The core is as fast as committed, or a warning says that it is not;
what it puts out is what was committed, or a failure."""

import warnings

import pytest

from benchmarks import committed
from benchmarks.workloads import Workload

WORKLOADS = {workload.name: workload for workload in committed.watched()}


def test_each_workload_is_committed() -> None:
    assert list(committed.read().workloads) == list(WORKLOADS)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_core_is_as_fast_as_committed(workload: Workload) -> None:
    expected, measured = committed.read().workloads[workload.name], committed.measure(workload)
    assert (measured.outputs, measured.checksum) == (expected.outputs, expected.checksum), (
        "The core puts out something else. If it should, `python -m benchmarks.committed --write` commits it."
    )
    if committed.read().python != committed.python_version():
        pytest.skip(f"The speed was committed with Python {committed.read().python}: another version has another one.")
    warn_if_slower(workload.name, committed.read(), measured)


def test_a_slower_core_warns() -> None:
    before = committed.Committed(
        python=committed.python_version(),
        workloads={"w": committed.CommittedWorkload(share=0.3, outputs=0, checksum=0)},
    )
    with pytest.warns(UserWarning, match=r"w: 3\.0 times as slow as committed"):
        warn_if_slower("w", before, committed.CommittedWorkload(share=0.1, outputs=0, checksum=0))
    with warnings.catch_warnings(action="error"):
        warn_if_slower("w", before, committed.CommittedWorkload(share=0.25, outputs=0, checksum=0))


def warn_if_slower(name: str, before: committed.Committed, measured: committed.CommittedWorkload) -> None:
    factor = before.workloads[name].share / measured.share
    if factor > committed.SLOWER_THAN_COMMITTED:
        warnings.warn(
            f"{name}: {factor:.1f} times as slow as committed, measured against a fixed loop. A busy machine may do "
            "that; if it stays, `python -m benchmarks.core --profile NAME` shows where the time goes.",
            stacklevel=1,
        )
