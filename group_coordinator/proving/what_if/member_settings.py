"""The settings of the members that play recorded clients, under a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from group_coordinator.coordinating.assignors import Assignor
from group_coordinator.coordinating.members.config import DEFAULT_ASSIGNORS, MemberConfig
from group_coordinator.proving.what_if.group_log import WhatIfError
from group_coordinator.proving.what_if.recorded_clients import RecordedClient
from group_coordinator.watching.dashboard.change import Change, GroupProtocol


def protocols(clients: Sequence[RecordedClient], change: Change) -> list[GroupProtocol]:
    """Return the protocol that each client will have."""
    return [change.group_protocol or client.protocol for client in clients]


def member_configs(
    group_id: str, clients: Sequence[RecordedClient], change: Change, assignors: Mapping[str, Assignor]
) -> list[MemberConfig]:
    """Return the settings of each client's member. Raises WhatIfError if nobody here knows its assignors."""
    instance_ids = _instance_ids(clients) if change.static_members else [client.instance_id for client in clients]
    return [
        _classic_config(group_id, client, instance_id, change, assignors)
        if protocol == "classic"
        else _consumer_config(group_id, client, instance_id, change)
        for client, protocol, instance_id in zip(clients, protocols(clients, change), instance_ids, strict=True)
    ]


def _classic_config(
    group_id: str,
    client: RecordedClient,
    instance_id: str | None,
    change: Change,
    assignors: Mapping[str, Assignor],
) -> MemberConfig:
    # One that had the consumer protocol has Kafka's defaults: these settings were none of its own.
    of_client = client if client.protocol == "classic" else None
    session_ms = change.session_timeout_ms or (of_client or MemberConfig).session_timeout_ms
    interval_ms = (of_client or MemberConfig).heartbeat_interval_ms
    interval_ms = change.heartbeat_interval_ms or min(interval_ms, session_ms // 3)
    if interval_ms >= session_ms:
        raise WhatIfError(
            f"The heartbeat interval must be less than the session timeout: one client's is {session_ms / 1000:g} s."
        )
    return MemberConfig(
        group_id=group_id,
        client_id=client.client_id,
        group_instance_id=instance_id,
        client_rack=client.rack_id,
        partition_assignment_strategy=_offered(client, assignors, change.assignor),
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=max(interval_ms, 1),
        max_poll_interval_ms=max(client.rebalance_timeout_ms, 1),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )


def _consumer_config(group_id: str, client: RecordedClient, instance_id: str | None, change: Change) -> MemberConfig:
    return MemberConfig(
        group_id=group_id,
        group_protocol="consumer",
        client_id=client.client_id,
        group_instance_id=instance_id,
        client_rack=client.rack_id,
        group_remote_assignor=change.assignor or client.server_assignor,
        max_poll_interval_ms=max(client.rebalance_timeout_ms, 1),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )


def _offered(client: RecordedClient, assignors: Mapping[str, Assignor], assignor: str | None) -> tuple[str, ...]:
    if assignor is not None:
        return (assignor,)
    if client.protocol == "consumer":
        return DEFAULT_ASSIGNORS
    names = tuple(name for name in client.assignors if name in assignors)
    if not names:
        raise WhatIfError(
            f"The members offer {', '.join(client.assignors)}, which is not known here. Choose an assignor."
        )
    return names


def _instance_ids(clients: Sequence[RecordedClient]) -> list[str | None]:
    """Return an id of its own for each client; a client that was started anew keeps its id."""
    busy_until_ms: dict[str, list[int]] = {}
    instance_ids: list[str | None] = []
    for client in clients:
        name = client.instance_id or client.client_id or client.client_host
        until = busy_until_ms.setdefault(name, [])
        ends_ms = client.last_sign_ms if client.ends_ms is None else client.ends_ms
        number = next((number for number, busy_ms in enumerate(until) if busy_ms <= client.begins_ms), len(until))
        until[number : number + 1] = [ends_ms]
        instance_ids.append(name if number == 0 else f"{name}-{number + 1}")
    return instance_ids
