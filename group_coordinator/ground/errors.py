"""Errors that are no defects of ours."""

from __future__ import annotations


class ExpectedError(RuntimeError):
    """The surroundings are not as they must be. The message is for the user: commands print it without a traceback."""
