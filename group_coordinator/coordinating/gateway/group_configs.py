"""Settings of groups (resources of type GROUP) in requests of admin clients, beside other resources. Pure.

Source: `ConfigAdminManager`, `ConfigurationControlManager`, `ControllerConfigurationValidator`, `ConfigHelper` (Kafka
4.3). A group has settings of the consumer kind alone: there are no share and streams groups here. Requests and answers
are the values of `schemas.kafka.codec`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from enum import IntEnum
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.coordinating.gateway.versions import OtherApi
from schemas.error_codes import ErrorCode
from schemas.group_metadata_events import GroupConfiguration
from schemas.group_settings import OWN_SETTINGS, OwnSettingsBounds, configuration_problems
from schemas.message_types import INT32

GROUP = 32
"""The type of resource."""
INVALID_CONFIG = 40
REQUEST_TIMED_OUT = 7
CONFIG_APIS: dict[int, str] = {
    OtherApi.DESCRIBE_CONFIGS: "DescribeConfigs",
    OtherApi.ALTER_CONFIGS: "AlterConfigs",
    OtherApi.INCREMENTAL_ALTER_CONFIGS: "IncrementalAlterConfigs",
    OtherApi.LIST_CONFIG_RESOURCES: "ListConfigResources",
}
LISTS_TYPES_FROM = 1
"""Of ListConfigResources; before, it knows other resources only."""
NOTHING = GroupConfiguration()
_INT = 3
"""The type of all settings of a group."""
_NUMBER = re.compile(r"\s*[+-]?[0-9]{1,10}\s*")

Values = Mapping[str, Any]


class _Source(IntEnum):
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8


class _Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigsRequest(Struct, frozen=True, dict=True):
    """The part of a request that is about groups."""

    api_key: int
    resources: tuple[Values, ...] = ()
    """As the client named them; none where it asks which there are."""
    validate_only: bool = False
    include_synonyms: bool = False
    include_documentation: bool = False

    @cached_property
    def repeated(self) -> frozenset[str]:
        """The groups that are named more than once."""
        counts = Counter([resource["resource_name"] for resource in self.resources])
        return frozenset([name for name, count in counts.items() if count > 1])


class ConfigsResponse(Struct, frozen=True):
    """The results for these groups, in the order of the request; or the groups that have settings."""

    results: tuple[Values, ...]


class ConfigProblem(Exception):
    """Why a resource is refused, with Kafka's code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def split(api_key: int, values: Values) -> tuple[ConfigsRequest | None, dict[str, Any] | None]:
    """Return what of a request is about groups, and the request without it; None: nothing."""
    of_groups = tuple([each for each in values["resources"] if each["resource_type"] == GROUP])
    if not of_groups:
        return None, dict(values)
    others = tuple([each for each in values["resources"] if each["resource_type"] != GROUP])
    request = ConfigsRequest(
        api_key,
        of_groups,
        bool(values.get("validate_only")),
        bool(values.get("include_synonyms")),
        bool(values.get("include_documentation")),
    )
    return request, {**values, "resources": others} if others else None


def merged(api_key: int, request: Values, own: ConfigsResponse, brokers: Values | None) -> dict[str, Any]:
    """Return the answer to a request over groups and others, in its order."""
    field = "results" if api_key == OtherApi.DESCRIBE_CONFIGS else "responses"
    results = [*own.results, *(brokers[field] if brokers is not None else ())]
    places = {_name_of(each): place for place, each in reversed(list(enumerate(request["resources"])))}
    results.sort(key=lambda result: places.get(_name_of(result), len(places)))
    return {**(brokers or {"throttle_time_ms": 0}), field: tuple(results)}


def listed(request: Values, brokers: Values, own: ConfigsResponse) -> dict[str, Any]:
    """Return a broker's list of resources with these groups in place of its own."""
    resources = [each for each in brokers["config_resources"] if each["resource_type"] != GROUP]
    wanted = request["resource_types"]
    if not brokers["error_code"] and (not wanted or GROUP in wanted):
        resources += own.results
    return {**brokers, "config_resources": tuple(resources)}


def refused(request: ConfigsRequest, resource: Values, code: int, message: str | None) -> dict[str, Any]:
    """Return the result for a resource that is refused; code 0: it is not."""
    result = {
        "error_code": code,
        "error_message": message,
        "resource_type": GROUP,
        "resource_name": resource["resource_name"],
    }
    return result | ({"configs": ()} if request.api_key == OtherApi.DESCRIBE_CONFIGS else {})


# ------------------------------------------------------------------------------------------------------------- altering


def altered(
    request: ConfigsRequest, resource: Values, own: GroupConfiguration, bounds: OwnSettingsBounds
) -> GroupConfiguration:
    """Return the settings that the group is to have from now on. Raises `ConfigProblem`."""
    configs = resource["configs"]
    if resource["resource_name"] in request.repeated:
        raise ConfigProblem(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    if len({config["name"] for config in configs}) < len(configs):
        raise ConfigProblem(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if not resource["resource_name"]:
        raise ConfigProblem(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    changed = NOTHING if request.api_key == OtherApi.ALTER_CONFIGS else own
    for config in configs:
        changed = _changed(changed, config["name"], config.get("config_operation", _Operation.SET), config["value"])
    problems = configuration_problems(bounds, changed)
    if problems:
        raise ConfigProblem(INVALID_CONFIG, " ".join(problems))
    return changed


def _changed(own: GroupConfiguration, name: str, operation: int, value: str | None) -> GroupConfiguration:
    if operation not in list(_Operation):
        raise ConfigProblem(ErrorCode.INVALID_REQUEST, f"Unknown operation type {operation}")
    field = OWN_SETTINGS.get(name)
    if field is None:
        raise ConfigProblem(INVALID_CONFIG, f"Unknown group config name: {name}")
    if operation in (_Operation.APPEND, _Operation.SUBTRACT):
        verb = _Operation(operation).name
        raise ConfigProblem(INVALID_CONFIG, f"Can't {verb} to key {name} because its type is not LIST.")
    return replace(own, **{field: None if operation == _Operation.DELETE else _number(name, value)})


def _number(name: str, value: str | None) -> int:
    if value is None:
        raise ConfigProblem(INVALID_CONFIG, f"Null value not supported for group configs: {name}")
    try:
        if _NUMBER.fullmatch(value) is None:
            raise ValueError(value)
        number: int = msgspec.convert(int(value), INT32)
    except ValueError:
        raise ConfigProblem(
            INVALID_CONFIG, f"Invalid value {value} for configuration {name}: Not a number of type INT"
        ) from None
    return number


# ----------------------------------------------------------------------------------------------------------- describing


def described(
    request: ConfigsRequest, resource: Values, own: GroupConfiguration, bounds: OwnSettingsBounds
) -> dict[str, Any]:
    """Return a group's settings: its own, and those of all groups where it has none."""
    if not resource["resource_name"]:
        return refused(request, resource, ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    wanted = resource["configuration_keys"]
    configs = [
        _entry(name, getattr(own, field), bounds, request)
        for name, field in OWN_SETTINGS.items()
        if wanted is None or name in wanted
    ]
    return refused(request, resource, ErrorCode.NONE, None) | {"configs": tuple(configs)}


def _entry(name: str, own: int | None, bounds: OwnSettingsBounds, request: ConfigsRequest) -> dict[str, Any]:
    of_all = bounds.of_all(name)
    is_default = of_all == OwnSettingsBounds().of_all(name)
    synonyms = [(name, own, _Source.DYNAMIC_GROUP_CONFIG)] if own is not None else []
    if not is_default:
        synonyms.append((f"group.{name}", of_all, _Source.STATIC_BROKER_CONFIG))
    synonyms.append((f"group.{name}", OwnSettingsBounds().of_all(name), _Source.DEFAULT_CONFIG))
    _, value, source = synonyms[0]
    return {
        "name": name,
        "value": str(value),
        "read_only": False,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": tuple(
            {"name": each, "value": str(number), "source": of} for each, number, of in synonyms
        )
        if request.include_synonyms
        else (),
        "config_type": _INT,
        "documentation": _DOCUMENTATION[name] if request.include_documentation else None,
    }


_DOCUMENTATION = {
    "consumer.session.timeout.ms": "How long a member of the group may be silent.",
    "consumer.heartbeat.interval.ms": "How often a member of the group is told to send a heartbeat.",
    "consumer.assignment.interval.ms": "The least time between two target assignments of the group.",
}


def _name_of(resource: Values) -> tuple[int, str]:
    return resource["resource_type"], resource["resource_name"]
