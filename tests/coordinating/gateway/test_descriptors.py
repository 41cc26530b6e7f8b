"""File descriptors are as many as connections need, or connections are fewer."""

from __future__ import annotations

import resource

import pytest

from group_coordinator.coordinating.gateway.descriptors import connections_that_fit


@pytest.mark.parametrize(
    ("limits", "wanted", "fit", "soft"),
    [
        ((1_024, 500_000), 10_000, 10_000, 20_200),
        ((1_024, 4_096), 10_000, 1_948, 4_096),
        ((100_000, 100_000), 10_000, 10_000, None),
        ((1_024, resource.RLIM_INFINITY), 10_000, 10_000, 20_200),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 10_000, 10_000, None),
        ((64, 64), 10_000, 1, 64),
    ],
)
def test_connections_and_descriptors(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], wanted: int, fit: int, soft: int | None
) -> None:
    now = [limits]
    monkeypatch.setattr(resource, "getrlimit", lambda which: now[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda which, given: now.append(given))
    assert connections_that_fit(wanted) == fit
    assert now[1:] == ([] if soft is None else [(soft, limits[1])])
