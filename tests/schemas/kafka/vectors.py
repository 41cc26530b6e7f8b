"""What the codec is tested with: every message and record in each version, and Kafka's own bytes of records."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from schemas.kafka.definitions import definition_of, names_of

VERSIONED = [
    (name, version)
    for folder in ("messages", "records")
    for name in names_of(folder)
    for version in definition_of(name).versions
]
"""The name of each message and record, with each of its versions."""

FIXTURES = Path(__file__).parents[2] / "fixtures"

VECTORS: list[dict[str, Any]] = json.loads(
    gzip.decompress((FIXTURES / "vectors/record_vectors.json.gz").read_bytes())
)["vectors"]
"""Records as Kafka's own classes write them."""
