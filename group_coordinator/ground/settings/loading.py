"""Settings are loaded from flags, environment, a TOML file and defaults, in this order of precedence.

A command's settings are those of a dataclass (`schemas.settings`). The environment names a setting
GROUP_COORDINATOR_<NAME>; tables (`kafka`, `spark`) are JSON there and tables in TOML. The entries of a table may come
from several places.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from copy import copy
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any, Literal, Self, TypeVar, get_args, get_origin

import msgspec

from group_coordinator.ground.errors import ExpectedError
from schemas.settings import Setting, bounds_problems, settings_of

Source = Literal["flag", "environment", "file", "default"]
ENVIRONMENT_PREFIX = "GROUP_COORDINATOR_"
_AS_NEAR = 0.1
"""`shardz` is nearer to `shard` than to `shards`, but not by much."""
SERVERS = "bootstrap.servers"
"""What a flag gives of a cluster's properties."""
_NEW_NAMES = {
    "coordinator_version": "kafka_rules",
    "group_consumer_mends_defects": "group_consumer_bug_fixes_enable",
    "hands_out_member_ids": "answer_member_id_required",
    "under_way_bytes_max": "queued_max_request_bytes",
}
"""Settings that had another name in an earlier release."""
_TRUTH = {"1": True, "on": True, "t": True, "true": True, "y": True, "yes": True,
          "0": False, "off": False, "f": False, "false": False, "n": False, "no": False}  # fmt: skip


class ConfigError(ExpectedError):
    """The settings cannot be used: one sentence for each mistake, all of them in `problems`."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class LoadedSettings:
    """The base of a command's settings. Making them raises `ConfigError`."""

    @classmethod
    def load(cls, flags: Mapping[str, Any] | None = None, file: Path | None = None) -> Self:
        """Return the settings from given flags, the environment and a TOML file. Raises `ConfigError`."""
        return load(cls, flags or {}, file)[0]

    def problems(self) -> list[str]:
        """Return one sentence for each mistake; here, for each value beyond its bounds."""
        return bounds_problems(self)

    def changed(self, **values: Any) -> Self:
        """Return a copy with other values, which are taken as they are."""
        copied = copy(self)
        vars(copied).update(values)
        return copied

    def __post_init__(self) -> None:
        if problems := self.problems():
            raise ConfigError(problems)


_C = TypeVar("_C", bound=LoadedSettings)
_Places = tuple[tuple[Source, Mapping[str, Any]], ...]


def load(
    kind: type[_C],
    flags: Mapping[str, Any],
    file: Path | None,
    others: Callable[[], Mapping[str, Setting]] = dict,
) -> tuple[_C, dict[str, Source]]:
    """Return the settings, and where each of them comes from. Raises `ConfigError` with all mistakes.

    A file may also have settings of `others`, which are not read: several commands share it.
    """
    settings, problems = settings_of(kind), list[str]()
    in_file = {} if file is None else read_file(file)
    places: _Places = (("file", in_file), ("environment", _environment(settings, problems)), ("flag", flags))
    merged, sources = _merged(settings, places)
    values: dict[str, Any] = {}
    for name in (name for name in settings if name in merged):
        value, wrong = _read(name, settings[name].type, merged[name])
        problems += wrong
        if not wrong:
            values[name] = value
    where = "There" if file is None else f"{file}: there"
    unknown = [name for name in {**in_file, **flags} if name not in settings]
    known = {**settings, **others()} if unknown else settings
    problems += (
        f"{where} is no setting {only_a_name(name)}.{did_you_mean(only_a_name(name), known)}"
        for name in unknown
        if name not in known
    )
    try:
        config = kind(**values)
    except ConfigError as problem:
        problems += problem.problems
    if problems:
        tables = {name for name, source in sources.items() if source == "file" and is_table(settings[name].type)}
        raise ConfigError([_with_file(problem, tables, file) for problem in problems])
    return config, sources


def _merged(settings: Mapping[str, Setting], places: _Places) -> tuple[dict[str, Any], dict[str, Source]]:
    """Return the given values, and where each comes from. A later place overrides an earlier one; tables are joined."""
    values: dict[str, Any] = {}
    sources: dict[str, Source] = dict.fromkeys(settings, "default")
    for source, place in places:
        for name in (name for name in settings if name in place):
            before, value = values.get(name), place[name]
            values[name] = _joined(before, value)
            sources[name] = source
    return values, sources


def _joined(before: Any, value: Any) -> Any:
    """Return a value that takes the place of another; of tables, entry by entry."""
    if not isinstance(before, dict) or not isinstance(value, dict):
        return value
    return before | {name: _joined(before.get(name), member) for name, member in value.items()}


def _with_file(sentence: str, tables: Collection[str], file: Path | None) -> str:
    """Return a sentence, with the file's name where it is about one of these tables, which the file has."""
    return f"{file}: {sentence}" if re.split(r"\W", sentence, maxsplit=1)[0] in tables else sentence


def read_file(file: Path) -> dict[str, Any]:
    """Read the settings of a file, unchecked. Raises ConfigError if there is none, or no TOML in it."""
    if not file.is_file():
        problem = f"{file} is no settings file." if file.exists() else f"The settings file {file} does not exist."
        raise ConfigError([problem])
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ConfigError([f"{file} is no settings file: it is not UTF-8."]) from None
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError([f"{file} cannot be read: {problem}."]) from None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the new name of a setting, or the one or two known names nearest to a misspelt one; empty
    if none is near."""
    names = {name.lower(): name for name in known}
    if (new_name := _NEW_NAMES.get(name.lower())) in names:
        return f" It is called {names[new_name]} now."
    near_names = get_close_matches(name.lower(), names, n=2)
    nearness = [SequenceMatcher(None, name.lower(), candidate).ratio() for candidate in near_names]
    near = [
        names[candidate]
        for candidate, ratio in zip(near_names, nearness, strict=True)
        if ratio > nearness[0] - _AS_NEAR
    ]
    return f" Did you mean {' or '.join(near)}?" if near else ""


def only_a_name(text: str) -> str:
    """Return the beginning of a text that may be a name: what follows it in a mistyped setting may be a password."""
    return _NAME.match(text)[0]  # type: ignore[index]


_NAME = re.compile(r"[\w.-]{0,100}")


def is_table(kind: Any) -> bool:
    """Return whether a setting of this type has names and texts."""
    return get_origin(kind) is dict


def has_tables(kind: Any) -> bool:
    """Return whether a setting of this type is a table of tables: the properties of several clusters by their names."""
    return is_table(kind) and is_table(get_args(kind)[1])


def plain(kind: Any) -> Any:
    """Return the type of a setting that is set: `int` for `int | None`."""
    return (
        next(argument for argument in get_args(kind) if argument is not NoneType)
        if NoneType in get_args(kind)
        else kind
    )


def _environment(settings: Mapping[str, Setting], problems: list[str]) -> dict[str, Any]:
    """Return what the environment gives. No problem repeats the text of a table: it may hold a password."""
    texts = {variable.lower(): text for variable, text in os.environ.items()}
    values: dict[str, Any] = {}
    for name, setting in settings.items():
        variable = f"{ENVIRONMENT_PREFIX}{name.upper()}"
        if (text := texts.get(variable.lower())) is not None:
            try:
                values[name] = json.loads(text) if is_table(setting.type) else text
            except ValueError:
                problems.append(f'{variable} cannot be read: write a JSON object, as {{"client.id": "me"}}.')
    return values


def _read(name: str, kind: Any, value: Any) -> tuple[Any, list[str]]:
    """Return a value in its type (the environment has texts only), and sentences about what is wrong with it."""
    kind = plain(kind)
    parsed: Any
    if has_tables(kind):
        return value, _problems_of_tables(name, value)
    if is_table(kind):
        return value, _problems_of_table(name, value)
    if kind is str:
        parsed, form = value if isinstance(value, str) else None, "a valid string"
    elif kind is bool:
        parsed, form = _TRUTH.get(str(value).lower()), "a valid boolean"
    elif kind is int:
        parsed, form = _whole_number(value), "a valid integer"
    else:
        choices = get_args(kind)
        parsed = next((choice for choice in choices if choice in (value, _whole_number(value))), None)
        form = f"{', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
    value_text = msgspec.json.encode(value, enc_hook=repr).decode()
    return parsed, [f"{name} is {value_text}, but must be {form}."] if parsed is None else []


def _whole_number(value: Any) -> int | None:
    with suppress(ValueError, TypeError):
        return int(value) if not isinstance(value, float) or value.is_integer() else None
    return None


_FORMS = {
    dict: "a table", list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number",
    NoneType: "nothing",
}  # fmt: skip


_DOTS = 'a name with dots stands in quotes, as in "sasl.mechanism" = "PLAIN".'


def _problems_of_tables(name: str, tables: Any) -> list[str]:
    if not isinstance(tables, dict):
        return [f"{name} is {_form(tables)}, but must be a table of tables."]
    named_tables = ((f"{name}.{only_a_name(key)}", table) for key, table in tables.items())
    return [problem for path, table in named_tables for problem in _problems_of_table(path, table)]


def _problems_of_table(name: str, table: Any) -> list[str]:
    """Return what is wrong with a table of properties without its values, since one may be a password."""
    if not isinstance(table, dict):
        return [f"{name} is {_form(table)}, but must be a table of names and texts."]
    return [
        f"{name}.{only_a_name(key)} is {_form(value)}, but must be a text: "
        + (_DOTS if isinstance(value, dict) else "put it in quotes.")
        for key, value in table.items()
        if not isinstance(value, str)
    ]


def _form(value: Any) -> str:
    return _FORMS.get(type(value), "something else")
