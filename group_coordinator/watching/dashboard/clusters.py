"""Groups of several clusters in one index: each is called after its cluster and itself, as `prod/payments`.

Names of clusters have no slash, so two groups never have the same name. Of a single cluster, whose name is "", groups
are called as they are.
"""

from __future__ import annotations

from msgspec.structs import replace

from schemas.history import History


def qualified_id(cluster: str, group_id: str) -> str:
    return f"{cluster}/{group_id}" if cluster else group_id


def qualified(cluster: str, record: History) -> History:
    """The record, of a group that is called after its cluster, too."""
    return replace(record, group_id=qualified_id(cluster, record.group_id)) if cluster else record


def unqualified(cluster: str, record: History) -> History:
    """The record as it was before it was qualified."""
    return replace(record, group_id=record.group_id.removeprefix(f"{cluster}/")) if cluster else record
