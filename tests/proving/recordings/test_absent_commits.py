"""A broker that stops writes no line of the commit that it took last: the offsets log has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proving.recordings.test_recording import FIXTURES, lines_of, places, verify_lines


@pytest.mark.parametrize("which", [-2, 15])
def test_a_commit_that_is_in_no_line_is_inferred_and_said(tmp_path: Path, which: int) -> None:
    lines = lines_of("coop")
    del lines[places(lines, "OFFSET_COMMIT", '"errorCode":0')[which]]
    report = verify_lines(tmp_path, lines, offsets=FIXTURES / "coop.offsets.jsonl.gz")
    assert not report.differences, "\n".join(report.lines())
    assert any("is not in the log is inferred" in line and "OffsetCommit of" in line for line in report.lines())
