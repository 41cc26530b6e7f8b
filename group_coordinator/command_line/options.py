"""Settings as flags: one option for each setting of a class of settings, or for some of them.

A command that is decorated with `with_settings` gets a `Resolved` as its first argument: the loaded configuration, and
where each of its values comes from. Classes of other commands are imported only where this one has no such name.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin

import msgspec
import typer
from msgspec import Struct

from group_coordinator.command_line.errors import HIDDEN, hide
from group_coordinator.ground.settings import loading
from group_coordinator.ground.settings.connection import ConnectionSettings, ReaderSettings
from group_coordinator.ground.settings.kafka_properties import PROPERTIES
from group_coordinator.ground.settings.loading import (
    ENVIRONMENT_PREFIX,
    SERVERS,
    ConfigError,
    LoadedSettings,
    Source,
    did_you_mean,
    has_tables,
    is_table,
    only_a_name,
    plain,
)
from schemas.group_settings import RetentionSettings
from schemas.settings import Setting, settings_of

C = TypeVar("C", bound=LoadedSettings)

_SETTINGS_OF_THE_COORDINATOR = "streaming.config.StreamingConfig"
_OTHER_SETTINGS = (
    "group_coordinator.coordinating.gateway.config.GatewaySettings",
    "group_coordinator.coordinating.gateway.config.TapSettings",
    "group_coordinator.watching.commands.watch_settings.WatchSettings",
)
"""Classes of other commands, by their names: they are imported where a command has no such setting itself."""

CONNECTION = ("bootstrap_servers", "kafka", "topic_prefix")
"""What a command needs that only reads topics."""
OPERATIONS = (
    "metrics_port", "metrics_host", "metrics_groups", "metrics_groups_pattern", "metrics_partitions",
    "metrics_series_max", "metrics_names", "otlp", "health_file", "log_format", "log_level",
)  # fmt: skip
"""What only a command that runs on and on needs."""
TUNING = ("tuning_worker_daemon", "tuning_state_worker", "tuning_hadoop", "tuning_heap", "tuning_class_archives")
"""What reaches into the inside of Spark and Hadoop, and can be switched off."""
FILE_OPTION = "config_file"
SECRETS = ("webhook", "otlp")
"""Settings whose values are never shown."""
TABLE_FLAGS = ("--kafka", "--spark")
DASHBOARD_TOKEN_VARIABLE = f"{ENVIRONMENT_PREFIX}DASHBOARD_TOKEN"
_OTHER_VARIABLES = (DASHBOARD_TOKEN_VARIABLE, f"{ENVIRONMENT_PREFIX}CACHE", f"{ENVIRONMENT_PREFIX}IVY_SETTINGS")
"""These variables are ours, and no class of settings has a field for them."""
_OF_KUBERNETES = re.compile(
    r"_(SERVICE_HOST=|SERVICE_PORT(_\w+)?=|PORT(_\d+_(TCP|UDP|SCTP))?=\w+://"
    r"|PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=)"
)
"""A pod gets variables for every service around it, whose name may begin as ours do. They tell by their values, too."""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the resolved settings, each with its source, and end.")]
"""The option of commands that run with many settings."""

Panels = Mapping[str, tuple[str, ...]]
"""Headings of the help, and which settings come first below each. One that is below none is below `_OTHER_PANEL`."""
_PANELS: Panels = {
    "Kafka": ("bootstrap_servers", "kafka", "cluster"),
    "Topics": ("topic_prefix", "shards", "shard"),
    "Spark": ("checkpoint", "master", "spark", "shuffle_partitions", "trigger_interval_ms", "spark_niceness",
              "spark_idle_policy", "spark_tier4_factor", "max_events_per_batch", "tick_interval_ms", "ticker"),
    "Responders": ("responders", "responder_alone_max_ms", "answers_directory"),
    "Operations": (*OPERATIONS, "webhook", "webhook_format"),
    "Tuning of Spark's inside (the outputs are the same without it)": TUNING,
}  # fmt: skip
_GROUPS_PANEL, _OTHER_PANEL, _REST = "Groups (settings of Kafka's coordinator)", "Topics", ""


class Resolved(Struct, Generic[C], frozen=True):
    """The configuration as it was resolved."""

    config: C
    sources: Mapping[str, Source]
    """Where each field's value comes from."""

    def lines(self) -> Iterator[str]:
        """Yield the configuration in the form of --config-file, each line with its source.

        No value of a table of properties is in it: whatever its name is, it may be a password.
        """
        rows = []
        tables: dict[str, dict[str, str]] = {}
        for name, source in self.sources.items():
            value = getattr(self.config, name)
            if name in SECRETS and value:
                value = HIDDEN
            if isinstance(value, dict):
                tables[name] = dict.fromkeys(value, HIDDEN)
            elif value is None:
                rows.append((f"# {name} is not set", source))
            else:
                rows.append((f"{name} = {_toml(value)}", source))
        width = max(len(text) for text, _ in rows)
        yield from (f"{text.ljust(width)}  # {source}" for text, source in rows)
        for name, table in ((name, table) for name, table in tables.items() if table):
            yield ""
            yield f"[{name}]  # {self.sources[name]}"
            yield from (f"{_toml(key)} = {_toml(text)}" for key, text in table.items())


ReaderOptions = Resolved[ReaderSettings]
"""Those of a command that only reads topics."""


def load_as(kind: type[C], flags: Mapping[str, Any], file: Path | None) -> Resolved[C]:
    """Load the settings from flags that were given (not None), the environment, a TOML file and defaults. Raises
    ConfigError."""
    values = {name: value for name, value in flags.items() if value is not None and value != []}
    values |= {name: _pairs(kind, name, value) for name, value in values.items() if isinstance(value, list)}
    _require_known_variables(kind)
    others = _of_the_coordinator if issubclass(kind, ConnectionSettings) else dict
    config, sources = loading.load(kind, values, file, others)
    tables = (getattr(config, name) for name, setting in settings_of(kind).items() if is_table(setting.type))
    hide(text for table in tables for text in _texts(table))
    hide(str(getattr(config, name)) for name in SECRETS if name in sources)
    return Resolved(config, {name: sources[name] for name in _all_names(kind)})


def _of_the_coordinator() -> Mapping[str, Setting]:
    """Return the settings that a file may have for the commands around this one."""
    return settings_of(_class_named(_SETTINGS_OF_THE_COORDINATOR))


def _of_all_commands() -> set[str]:
    kinds = [_class_named(name) for name in (_SETTINGS_OF_THE_COORDINATOR, *_OTHER_SETTINGS)]
    return {name for kind in kinds for name in settings_of(kind)}


def _class_named(name: str) -> type[LoadedSettings]:
    module, _, kind = name.rpartition(".")
    found: type[LoadedSettings] = getattr(importlib.import_module(module), kind)
    return found


def _require_known_variables(kind: type[LoadedSettings]) -> None:
    """A variable that is misspelt would be passed over.

    One machine may have those of several commands. Raises ConfigError.
    """
    own_names = {*settings_of(kind), *(name.removeprefix(ENVIRONMENT_PREFIX).lower() for name in _OTHER_VARIABLES)}
    unknown = []
    for variable, value in sorted(os.environ.items()):
        name = variable.upper().removeprefix(ENVIRONMENT_PREFIX)
        is_ours = name != variable.upper() and not _OF_KUBERNETES.search(f"{variable}={value}")
        if is_ours and name.lower() not in own_names:
            unknown.append((variable, name))
    known_names = {name.upper() for name in own_names | _of_all_commands()} if unknown else set()
    problems = [
        f"The environment has {variable}, which is no setting.{did_you_mean(name, sorted(known_names))}"
        for variable, name in unknown
        if name not in known_names
    ]
    if problems:
        raise ConfigError(problems)


def with_settings(
    *names: str, of: type[LoadedSettings], but: tuple[str, ...] = (), panels: Panels | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of these settings (all of them when none is named, `but` some) and --config-file."""
    option_names = names or tuple(name for name in _all_names(of) if name not in but)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        settings_parameter, *other_parameters = signature.parameters.values()

        def run(**arguments: Any) -> None:
            flags = {name: arguments.pop(name) for name in option_names}
            settings = load_as(of, flags, arguments.pop(FILE_OPTION))
            command(settings, **arguments)

        options = [
            _file_parameter(),
            *(_parameter(of, name, _panels(of) if panels is None else panels) for name in option_names),
        ]
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*other_parameters, *options)
        ]
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        assert settings_parameter.name == "settings"
        return run

    return decorate


def _all_names(kind: type[LoadedSettings]) -> tuple[str, ...]:
    """All settings in the order of the panels; those of the core come last, as they are set least often."""
    listed = [(panel, name) for panel, members in _panels(kind).items() for name in (*members, _REST)]
    places = {name: place for place, (_, name) in enumerate(listed) if name != _REST}
    return tuple(sorted(settings_of(kind), key=lambda name: places.get(name, listed.index((_OTHER_PANEL, _REST)))))


def _panels(kind: type[LoadedSettings]) -> Panels:
    """Return the headings with the settings of the coordinator, whose names are Kafka's."""
    bases = (base for base in kind.__mro__ if not issubclass(base, LoadedSettings))
    names = (name for base in bases if issubclass(base, RetentionSettings) for name in settings_of(base))
    return {**_PANELS, _GROUPS_PANEL: tuple(dict.fromkeys(names))}


def _file_parameter() -> inspect.Parameter:
    option = typer.Option(
        "--config-file",
        metavar="FILE",
        help="Settings in TOML, by the names of the options below (with underscores).",
        rich_help_panel="Settings",
    )
    return inspect.Parameter(
        FILE_OPTION, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotated(Path | None, option)
    )


def _parameter(settings: type[LoadedSettings], name: str, panels: Panels) -> inspect.Parameter:
    setting = settings_of(settings)[name]
    kind = plain(setting.type)
    default_text = "" if is_table(kind) or setting.default is None else f" [default: {setting.default}]"
    flag = name.replace("_", "-")
    option = typer.Option(
        f"--{flag}/--no-{flag}" if kind is bool else f"--{flag}",
        help=setting.text + default_text,
        metavar=_metavar(kind),
        rich_help_panel=next((panel for panel, members in panels.items() if name in members), _OTHER_PANEL),
        show_default=False,
    )
    # The command line parses a choice as the type of what can be chosen.
    parsed = list[str] if is_table(kind) else type(get_args(kind)[0]) if get_origin(kind) is Literal else kind
    annotation = _annotated(parsed | None, option)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _annotated(kind: Any, option: Any) -> Any:
    return Annotated[kind, option]


def _metavar(kind: Any) -> str | None:
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    if has_tables(kind):
        return "NAME=SERVERS"
    return "NAME=VALUE" if is_table(kind) else {bool: None, int: "NUMBER"}.get(kind, "TEXT")


def _texts(table: Mapping[str, Any]) -> Iterator[str]:
    """The texts that may be passwords."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _texts(value)
        elif name != SERVERS:
            yield value


def _pairs(settings: type[LoadedSettings], name: str, texts: list[str]) -> dict[str, Any]:
    for text in texts:
        _insist_on_a_pair(name, text)
    pairs = dict(text.split("=", 1) for text in texts)
    if len(pairs) < len(texts):
        names = [text.partition("=")[0] for text in texts]
        twice = next(each for each in names if names.count(each) > 1)
        raise ConfigError([f"--{name}: {only_a_name(twice)} is named twice: name each once."])
    if has_tables(settings_of(settings)[name].type):
        return {key: {SERVERS: servers} for key, servers in pairs.items()}
    return pairs


def _insist_on_a_pair(name: str, text: str) -> None:
    """Raises ConfigError.

    What is no pair is repeated only where it is like the name of a property: it may be a password.
    """
    if "=" in text:
        return
    name_part = only_a_name(text)
    is_name = did_you_mean(name_part, PROPERTIES) if name == "kafka" else name_part.startswith("spark.")
    raise ConfigError([f"--{name}{f' {name_part}' if is_name else ''}: write NAME=VALUE."])


def insist_on_pairs(arguments: Sequence[str]) -> None:
    """Check that a pair follows every flag of a table, before any other message about a command line with `NAME
    VALUE`.

    Raises ConfigError.
    """
    for place, argument in enumerate(arguments):
        flag, has_value, value = argument.partition("=")
        if argument == "--":
            return
        if flag in TABLE_FLAGS and (has_value or place + 1 < len(arguments)):
            _insist_on_a_pair(flag.removeprefix("--"), value if has_value else arguments[place + 1])


def _toml(value: object) -> str:
    """A number, or a basic string: the escapes of JSON are those of TOML."""
    return msgspec.json.encode(value).decode()
