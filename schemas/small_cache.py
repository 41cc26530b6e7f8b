"""A cache that keeps results for short texts and byte strings only: one that holds thousands of long ones fills the
memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

_Argument = TypeVar("_Argument", str, bytes)
_Result = TypeVar("_Result")


def small_cache(
    entries: int, longest: int
) -> Callable[[Callable[[_Argument], _Result]], Callable[[_Argument], _Result]]:
    """Cache the last results of a function of one text or byte string, for arguments no longer than `longest`."""

    def decorate(function: Callable[[_Argument], _Result]) -> Callable[[_Argument], _Result]:
        cached = lru_cache(maxsize=entries)(function)

        @wraps(function)
        def call(argument: _Argument) -> _Result:
            return cached(argument) if len(argument) <= longest else function(argument)

        return call

    return decorate
