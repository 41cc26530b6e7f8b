"""Tests of a message in each of its versions: one item a message, for pytest takes longer over an item than most of
them take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps

import pytest


def in_each_version(versioned: Iterable[tuple[str, int]]) -> Callable[[Callable[[str, int], None]], Callable[..., None]]:
    """Make a test of a message and a version one of a message and all its versions. A failure names the version."""
    versions: dict[str, list[int]] = {}
    for message, version in versioned:
        versions.setdefault(message, []).append(version)

    def of_a_message(test: Callable[[str, int], None]) -> Callable[..., None]:
        @wraps(test)
        def in_all(message: str) -> None:
            for version in versions[message]:
                try:
                    test(message, version)
                except BaseException as problem:
                    problem.add_note(f"{message} in version {version}")
                    raise

        del in_all.__wrapped__  # type: ignore[attr-defined]  # pytest would ask it for its arguments
        return pytest.mark.parametrize("message", versions)(in_all)

    return of_a_message
