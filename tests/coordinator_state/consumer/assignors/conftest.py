"""Fixtures of the tests of assignors."""

from __future__ import annotations

from tests.coordinator_state.consumer.assignors.registering import register

__all__ = ["register"]
