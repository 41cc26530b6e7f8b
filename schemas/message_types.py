"""The base of all messages, and the ranges of Kafka's wire types: a value outside is a decode error."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

INT32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
INT64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
UUID_TEXT = Annotated[str, Meta(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
NO_GENERATION = -1
"""Generation of a request without membership, and of a refused JoinGroup."""
NO_AUTHORIZED_OPERATIONS = -(2**31)
"""DescribeGroups: the authorised operations were not asked for (or, here, are not known)."""


class Message(Struct, frozen=True, kw_only=True, gc=False):
    """Base of all messages: immutable, compared by value, built by keyword. They cannot form cycles, hence `gc=False`.

    A class of which requests make thousands may be built by position, too: that takes a third of the time.
    Requests are final, so that `type(request) is ...` tells them apart: `isinstance` asks msgspec's metaclass.
    """
