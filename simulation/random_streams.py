"""Chance that knows no order: what is drawn depends on the seed and on what is asked, not on what was asked before.

So a world from which a member or a fault is taken away keeps all its other accidents, and a failing one can be shrunk.
"""

from __future__ import annotations

from random import Random


class RandomStreams:
    """Each question has a random stream of its own, which depends on the seed and the question alone."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def of(self, *question: object) -> Random:
        """Return the random numbers for one question; the same question gets the same numbers."""
        return Random(f"{self._seed}/{'/'.join(map(str, question))}")
