"""JSON that others wrote: one exception for all that can be wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


def json_decoder(kind: Any) -> Callable[[bytes], Any]:
    """Return a decoder of values of this type that raises no other error than `msgspec.DecodeError`.

    msgspec itself has other exceptions for text that is no UTF-8 and for nesting without an end.
    """
    decode = msgspec.json.Decoder(kind).decode

    def decode_foreign(value: bytes) -> Any:
        try:
            return decode(value)
        except (UnicodeDecodeError, RecursionError) as error:
            raise msgspec.DecodeError(str(error)) from None

    return decode_foreign
