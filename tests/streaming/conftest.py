"""Fixtures of the tests of streaming."""

from __future__ import annotations

from tests.coordinator_state.consumer.assignors.registering import register

__all__ = ["register"]
