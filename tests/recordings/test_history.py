"""Kafka 4.3.1's own coordinator, history by history: every answer, record and state, to the millisecond and the byte."""

import gzip
import json
from pathlib import Path

import pytest

from coordinator_state import Coordinator, GroupCoordinator, decode_group, encode_group
from recordings import history
from recordings.history import merge_patch, verify_histories

FOLDER = Path(__file__).parents[1] / "fixtures" / "histories"
FAMILIES = sorted(FOLDER.glob("*.jsonl.gz"))


def test_all_families_are_there() -> None:
    assert len(FAMILIES) == 24


@pytest.mark.parametrize("path", FAMILIES, ids=lambda path: path.name.split(".")[0])
def test_history_reproduces(path: Path) -> None:
    report = verify_histories([path])
    assert report.steps > 100
    assert report.answers > 50
    assert [line for each in report.differences[:3] for line in each.lines()] == []


class ForgetfulCoordinator(Coordinator):
    """Keeps nothing between two calls but the state blobs, as between two batches."""

    def advance_to(self, clock_ms: int) -> list:
        self._reload()
        outputs = super().advance_to(clock_ms)
        self._reload()
        return outputs

    def _reload(self) -> None:
        self._groups = {
            group_id: GroupCoordinator(group_id, self.config, group=decode_group(*encode_group(each.group)))
            for group_id, each in self._groups.items()
            if each.group is not None
        }


@pytest.mark.parametrize("family", ["soup", "static_restart", "expiry", "offsets", "long_rebalance"])
def test_nothing_but_the_blobs_is_needed_between_steps(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "Coordinator", ForgetfulCoordinator)
    report = verify_histories([FOLDER / f"{family}.jsonl.gz"])
    assert [line for each in report.differences[:3] for line in each.lines()] == []


def test_a_difference_is_found_and_told(tmp_path: Path) -> None:
    with gzip.open(FOLDER / "single_member.jsonl.gz", "rt") as file:
        recorded = json.loads(file.readline())
    step = next(each for each in recorded["steps"] if each.get("answers"))
    step["answers"][0]["response"]["errorCode"] = 99
    path = tmp_path / "changed.jsonl"
    path.write_text(json.dumps(recorded) + "\n")
    report = verify_histories([path])
    assert report.summary().endswith("1 differences")
    told = "\n".join(report.differences[0].lines())
    assert recorded["name"] in told
    assert '"errorCode": 99' in told


def test_a_file_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wrong.jsonl"
    path.write_text('{"name": "x"}\n')
    with pytest.raises(ValueError, match="line 1: not a recorded history"):
        verify_histories([path])


def test_merge_patch() -> None:
    assert merge_patch({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None}, "e": 4}) == {"a": {"c": 2}, "d": 3, "e": 4}
