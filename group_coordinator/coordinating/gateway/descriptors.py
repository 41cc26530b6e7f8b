"""File descriptors: each connection takes two, and many systems begin a process with a bound of 1,024."""

from __future__ import annotations

import resource

_PER_CONNECTION = 2
"""The client's side and the broker's."""
_RESERVED = 200
"""For all else that the process has open."""


def connections_that_fit(connections: int) -> int:
    """Return how many connections the process has file descriptors for, after raising its soft limit as far as needed
    and allowed.

    Where there are none left, connections could not even be taken to be refused.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors = _PER_CONNECTION * connections + _RESERVED
    if soft != resource.RLIM_INFINITY and soft < descriptors:
        soft = descriptors if hard == resource.RLIM_INFINITY else min(descriptors, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return connections
    return max(1, min(connections, (soft - _RESERVED) // _PER_CONNECTION))
