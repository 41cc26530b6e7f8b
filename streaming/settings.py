"""Settings are loaded from flags, environment, a TOML file and defaults, in this order of precedence.

A command's settings are the fields of a class, each documented by the string below it, from which `--help` is made. The
environment names a field GROUP_COORDINATOR_<NAME>; tables (`kafka`, `spark`) are JSON there and tables in TOML.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher, get_close_matches
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, ClassVar, Self, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields
from pydantic import BeforeValidator, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from schemas.setting_types import beyond_bounds, first_meta, meta_of

ENVIRONMENT_PREFIX = "GROUP_COORDINATOR_"
_AS_NEAR = 0.1
"""`shardz` is nearer to `shard` than to `shards`, but not by much."""


class ConfigError(RuntimeError):
    """The settings cannot be used: one sentence for each mistake, all of them in `problems`."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class DocumentedSettings(BaseSettings):
    """All settings derive from this class. Building one raises `ConfigError`."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    settings_file: ClassVar[Path | None] = None
    """Where settings are from that are given by no flag and no variable."""

    @classmethod
    def load(cls, flags: Mapping[str, Any] | None = None, file: Path | None = None) -> Self:
        """The settings from flags (those that were given), the environment and a TOML file. Raises `ConfigError`."""
        return cls.load_from(flags or {}, {} if file is None else read_file(file), file)

    @classmethod
    def load_from(cls, flags: Mapping[str, Any], in_file: dict[str, Any], file: Path | None) -> Self:
        """Load the settings, given a file's content."""

        class FromFile(cls):  # type: ignore[misc, valid-type]
            settings_file = file

            @classmethod
            def settings_customise_sources(
                cls,
                settings_cls: type[BaseSettings],
                init_settings: PydanticBaseSettingsSource,
                env_settings: PydanticBaseSettingsSource,
                **_: PydanticBaseSettingsSource,
            ) -> tuple[PydanticBaseSettingsSource, ...]:
                return init_settings, env_settings, InitSettingsSource(settings_cls, in_file)

        try:
            loaded: Self = FromFile(**flags)
        except SettingsError as problem:  # the JSON of a table; its text is not repeated, there may be a password in it
            name = re.search(r'field "(\w+)"', str(problem))
            variable = f"{ENVIRONMENT_PREFIX}{name[1].upper()}" if name else "A variable of the environment"
            raise ConfigError([f'{variable} cannot be read: write a JSON object, as {{"client.id": "me"}}.']) from None
        return loaded

    def problems(self) -> list[str]:
        """Return one sentence for each mistake; here, for each value beyond the bounds that its type declares."""
        return beyond_bounds(self, {name: first_meta(field.metadata) for name, field in type(self).model_fields.items()})

    @model_validator(mode="wrap")
    @classmethod
    def _all_problems_at_once(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            config, problems = handler(data), []
        except ValidationError as error:
            problems = [cls._sentence(dict(each)) for each in error.errors()]
            wrong = {each["loc"][0] for each in error.errors()}
            config = handler({name: value for name, value in data.items() if name not in wrong})
        problems += config.problems()
        if problems:
            raise ConfigError(problems)
        return config

    @classmethod
    def _sentence(cls, error: dict[str, Any]) -> str:
        name = ".".join(only_a_name(str(part)) for part in error["loc"])
        if error["type"] == "extra_forbidden":
            where = "There" if cls.settings_file is None else f"{cls.settings_file}: there"
            return f"{where} is no setting {name}.{did_you_mean(name, cls.model_fields)}"
        if get_origin(cls.model_fields[error["loc"][0]].annotation) is dict:
            return _sentence_of_table(name, error)
        wanted = error["msg"].removeprefix("Input should be ")
        return f"{name} is {msgspec.json.encode(error['input'], enc_hook=repr).decode()}, but must be {wanted}."


def read_file(file: Path) -> dict[str, Any]:
    """The settings in a file, unchecked. Raises ConfigError when it is none, or no TOML."""
    if not file.is_file():
        raise ConfigError([f"The settings file {file} does not exist." if not file.exists() else f"{file} is no settings file."])
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ConfigError([f"{file} is no settings file: it is not UTF-8."]) from None
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError([f"{file} cannot be read: {problem}."]) from None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence with the known name that is nearest to a misspelt one, or two; empty where none is near."""
    names = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), names, n=2)
    nearness = [SequenceMatcher(None, name.lower(), each).ratio() for each in found]
    near = [names[each] for each, ratio in zip(found, nearness, strict=True) if ratio > nearness[0] - _AS_NEAR]
    return f" Did you mean {' or '.join(near)}?" if near else ""


def settings_of(owner: type[Struct], *names: str) -> dict[str, Any]:
    """The settings that another class owns, with their types, defaults, bounds and texts, as fields for `create_model`.

    Without names: all of its fields that have a text.
    """
    metas = {field.name: meta_of(field.type) or Meta() for field in fields(owner)}
    return {
        field.name: (
            Annotated[field.type, BeforeValidator(_number)],
            Field(default=field.default, description=metas[field.name].description),
        )
        for field in fields(owner)
        if (field.name in names if names else metas[field.name].description)
    }


def _number(value: Any) -> Any:
    """The environment has text only, which a choice of numbers would refuse."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def only_a_name(text: str) -> str:
    """The beginning of a text that may be a name: behind it, in what was mistyped, there may be a password."""
    return _NAME.match(text)[0]  # type: ignore[index]


_NAME = re.compile(r"[\w.-]{0,100}")


_FORMS = {dict: "a table", list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number", NoneType: "nothing"}


def _sentence_of_table(name: str, error: dict[str, Any]) -> str:
    """Return what is wrong with a table of properties without its values, since one may be a password."""
    form = _FORMS.get(type(error["input"]), "something else")
    if len(error["loc"]) == 1:
        return f"{name} is {form}, but must be a table of names and texts."
    if isinstance(error["input"], dict):
        return f'{name} is a table, but must be a text: a name with dots stands in quotes, as in "sasl.mechanism" = "PLAIN".'
    return f"{name} is {form}, but must be a text: put it in quotes."
