"""The versions of each request that the coordinator answers, by the request's name."""

from __future__ import annotations

from schemas.messages import APIS

API_VERSIONS = {name: frozenset(range(api.min_version, api.max_version + 1)) for name, api in APIS.items()}
