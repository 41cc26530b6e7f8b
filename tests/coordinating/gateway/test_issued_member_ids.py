"""Member ids that were handed out: each is good once, and they take bounded memory."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.gateway import issued_member_ids
from group_coordinator.coordinating.gateway.issued_member_ids import IssuedMemberIds
from group_coordinator.ground.digests import digest
from tests.coordinating.gateway.accounts import Clock


def test_an_id_is_good_once_and_for_its_group() -> None:
    ids = IssuedMemberIds(Clock())
    ids.remember("g", "m")
    assert not ids.take("h", "m")
    assert ids.take("g", "m")
    assert not ids.take("g", "m")


def test_names_take_the_same_room_however_long_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issued_member_ids, "KEPT_MAX", 10)
    ids = IssuedMemberIds(Clock())
    for number in range(50):
        ids.remember("g" * 32_000, f"{number}-" + "m" * 32_000)
    assert len(ids) == 10
    assert ids.kept_bytes == 10 * 16
    assert ids.take("g" * 32_000, "49-" + "m" * 32_000)
    assert not ids.take("g" * 32_000, "0-" + "m" * 32_000), "the oldest are forgotten"


def test_an_id_that_is_not_used_is_forgotten() -> None:
    clock = Clock()
    ids = IssuedMemberIds(clock)
    ids.remember("g", "m")
    clock.now = 300_001
    ids.remember("g", "n")
    assert len(ids) == 1
    assert not ids.take("g", "m")


def test_digests_do_not_mistake_names_for_others() -> None:
    names: list[tuple[str | None, ...]] = [
        ("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("abc", None), ("1:a",), ("a",),
    ]  # fmt: skip
    assert len({digest(*name_pair) for name_pair in names}) == len(names)
    assert digest("a", "b") == digest("a", "b")
