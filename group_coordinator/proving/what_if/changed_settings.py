"""The coordinator's settings with a change, and which changes make no sense."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from coordinator_state import GroupConfig
from group_coordinator.coordinating.assignors import Assignor
from group_coordinator.coordinating.members.config import DEFAULT_ASSIGNORS, MemberConfig
from group_coordinator.proving.what_if.group_log import WhatIfError
from group_coordinator.proving.what_if.recorded_clients import RecordedClient
from group_coordinator.watching.dashboard.change import Change, GroupProtocol


def changed_config(
    config: GroupConfig, change: Change, protocols: Collection[GroupProtocol], assignors: Mapping[str, Assignor]
) -> GroupConfig:
    """Return the coordinator's settings with this change. Raises WhatIfError for a change that makes no sense.

    `protocols`: those that the clients will have. `assignors`: those that classic members may offer.
    """
    _require_sense(change, protocols)
    _require_assignor(config, change, protocols, assignors)
    _require_bounds(config, change, protocols)
    return dataclasses.replace(config, **_changes(change, protocols))


def _changes(change: Change, protocols: Collection[GroupProtocol]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if change.initial_delay_ms is not None:
        changes["group_initial_rebalance_delay_ms"] = change.initial_delay_ms
    if "consumer" in protocols:
        of_consumer_groups = {
            "session_timeout_ms": change.session_timeout_ms,
            "heartbeat_interval_ms": change.heartbeat_interval_ms,
            "assignment_interval_ms": change.assignment_interval_ms,
        }
        for name, value in of_consumer_groups.items():
            if value is not None:  # whoever changes it changes its bounds with it, where it must
                changes |= {f"group_consumer_{bound}{name}": value for bound in ("", "min_", "max_")}
    return changes


def _require_sense(change: Change, protocols: Collection[GroupProtocol]) -> None:
    if change.initial_delay_ms is not None and "classic" not in protocols:
        raise WhatIfError(
            "An initial delay is of classic groups: a consumer group gives its first member partitions at once."
        )
    if change.assignment_interval_ms is not None and "consumer" not in protocols:
        raise WhatIfError(
            "An assignment interval is of consumer groups: in a classic group one of the members assigns."
        )


def _require_assignor(
    config: GroupConfig, change: Change, protocols: Collection[GroupProtocol], assignors: Mapping[str, Assignor]
) -> None:
    name, of_server = change.assignor, config.consumer_assignors
    if name is None:
        return
    if len(set(protocols)) > 1:
        raise WhatIfError(
            "Members of both protocols have no assignor in common: choose a protocol for all of them, too."
        )
    if "consumer" in protocols and name not in of_server:
        whose = " That one is of members with the classic protocol." if name in assignors else ""
        raise WhatIfError(
            f"The coordinator has no assignor {name!r} for consumer groups; it has {', '.join(of_server)}.{whose}"
        )
    if "classic" in protocols and name not in assignors:
        whose = " That one is the coordinator's, for consumer groups." if name in of_server else ""
        raise WhatIfError(f"There is no assignor {name!r} here; there are {', '.join(assignors)}.{whose}")


def _require_bounds(config: GroupConfig, change: Change, protocols: Collection[GroupProtocol]) -> None:
    session_ms, interval_ms = change.session_timeout_ms, change.heartbeat_interval_ms
    least, most = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if session_ms is not None and "classic" in protocols and not least <= session_ms <= most:
        raise WhatIfError(
            f"A session timeout must lie between {least / 1000:g} s and {most / 1000:g} s: the coordinator would "
            "refuse it (group_min_session_timeout_ms, group_max_session_timeout_ms)."
        )
    if interval_ms is not None and interval_ms < 1:
        raise WhatIfError("A heartbeat interval must be at least 1 ms.")
    session_of_group_ms = session_ms or config.member_intervals.session_timeout_ms
    interval_of_group_ms = interval_ms or config.member_intervals.heartbeat_interval_ms
    if "consumer" in protocols and interval_of_group_ms >= session_of_group_ms:
        raise WhatIfError(
            f"The heartbeat interval ({interval_of_group_ms / 1000:g} s) must be less than the session timeout "
            f"({session_of_group_ms / 1000:g} s)."
        )


# ------------------------------------------------------------------------------------------------ the members' settings


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
