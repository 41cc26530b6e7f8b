"""Tests of a message in each of its versions: one item a message, for pytest takes longer over an item than most of
them take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps

import pytest

OfVersion = Callable[[str, int], None]


def in_each_version(versioned: Iterable[tuple[str, int]]) -> Callable[[OfVersion], Callable[..., None]]:
    """Make a test of a message and a version one of a message and all its versions. A failure names the version."""
    versions: dict[str, list[int]] = {}
    for message, version in versioned:
        versions.setdefault(message, []).append(version)

    def of_a_message(test: OfVersion) -> Callable[..., None]:
        @wraps(test)
        def in_all(message: str) -> None:
            for version in versions[message]:
                try:
                    test(message, version)
                except BaseException as problem:
                    problem.add_note(f"{message} in version {version}")
                    raise

        del in_all.__wrapped__  # pytest would ask it for its arguments
        return pytest.mark.parametrize("message", versions)(in_all)

    return of_a_message
