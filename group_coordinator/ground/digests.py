"""A digest stands for names that may be long, where only their equality matters."""

from __future__ import annotations

import os
from hashlib import blake2b

_KEY = os.urandom(16)
"""It is secret: nobody outside can choose names with the same digest."""
_DIGEST_BYTES = 16


def digest(*names: str | None) -> bytes:
    """Return a digest of the names in their order; all digests have the same length."""
    hashed = blake2b(digest_size=_DIGEST_BYTES, key=_KEY)
    for name in names:
        encoded = b"" if name is None else name.encode("utf-8", "replace")
        hashed.update(b"%d:" % (-1 if name is None else len(encoded)))
        hashed.update(encoded)
    return hashed.digest()
