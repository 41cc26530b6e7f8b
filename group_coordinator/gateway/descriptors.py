"""File descriptors: each connection takes two, and many systems begin a process with a bound of 1,024."""

from __future__ import annotations

import resource

_PER_CONNECTION = 2
"""The client's side and the broker's."""
_RESERVED = 200
"""For all else that the process has open."""


def connections_that_fit(wanted: int) -> int:
    """Return how many connections the process has file descriptors for, after raising its soft limit as far as needed
    and allowed.

    Where there are none left, connections could not even be taken to be refused.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _PER_CONNECTION * wanted + _RESERVED
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, (soft - _RESERVED) // _PER_CONNECTION))
