"""The coordinator's settings with a change, and which changes make no sense."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from coordinator_state import GroupConfig
from group_coordinator.assignors import Assignor
from group_coordinator.what_if.change import Change, GroupProtocol
from group_coordinator.what_if.group_log import WhatIfError


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
    changes = {
        "group_initial_rebalance_delay_ms": change.initial_delay_ms,
        "group_consumer_assignment_interval_ms": change.assignment_interval_ms,
    }
    if "consumer" in protocols:
        changes["group_consumer_session_timeout_ms"] = change.session_timeout_ms
        changes["group_consumer_heartbeat_interval_ms"] = change.heartbeat_interval_ms
    return {name: value for name, value in changes.items() if value is not None}


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
    if "classic" in protocols:
        _require_within("session timeout", session_ms, config, "group_{}_session_timeout_ms", "refuse it")
        if interval_ms is not None and interval_ms < 1:
            raise WhatIfError("A heartbeat interval must be at least 1 ms.")
    if "consumer" in protocols:
        whose = "not take another one for a consumer group"
        _require_within("session timeout", session_ms, config, "group_consumer_{}_session_timeout_ms", whose)
        _require_within("heartbeat interval", interval_ms, config, "group_consumer_{}_heartbeat_interval_ms", whose)
        _require_within(
            "assignment interval",
            change.assignment_interval_ms,
            config,
            "group_consumer_{}_assignment_interval_ms",
            whose,
        )
    if session_ms is not None and interval_ms is not None and interval_ms >= session_ms:
        raise WhatIfError("The heartbeat interval must be less than the session timeout.")


def _require_within(name: str, value: int | None, config: GroupConfig, setting: str, what: str) -> None:
    least, most = (getattr(config, setting.format(bound)) for bound in ("min", "max"))
    if value is not None and not least <= value <= most:
        article = "An" if name.startswith("a") else "A"
        raise WhatIfError(
            f"{article} {name} must lie between {least / 1000:g} s and {most / 1000:g} s: the coordinator would {what} "
            f"({setting.format('min')}, {setting.format('max')})."
        )
