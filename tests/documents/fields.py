"""Lists of fields for the documents, made from the types and the texts under their fields."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import msgspec

IN_EVERY_DOCUMENT = "schema_version"


def field_list(kind: type[msgspec.Struct]) -> str:
    """Markdown: a bullet for each field that needs words, and one line with the others."""
    texts = field_texts(kind)
    listed_fields = [field for field in msgspec.structs.fields(kind) if field.encode_name != IN_EVERY_DOCUMENT]
    shown = [(_shown(field), texts.get(field.name, "")) for field in listed_fields]
    named_only = ", ".join(name for name, text in shown if not text)
    bullets = [f"- {name}: {text}" for name, text in shown if text]
    if not bullets:
        return named_only
    return "\n".join([*bullets, *([f"- {named_only}"] if named_only else [])])


def field_texts(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Field -> what is said of it, of the class and its bases; fields of which nothing is said are left out."""
    texts: dict[str, str] = {}
    for cls in reversed(kind.__mro__):
        if cls in (object, msgspec.Struct) or not issubclass(cls, msgspec.Struct):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
        assert isinstance(definition, ast.ClassDef)
        for statement, following in zip(definition.body, definition.body[1:], strict=False):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                text = getattr(getattr(following, "value", None), "value", None)
                if isinstance(following, ast.Expr) and isinstance(text, str):
                    texts[statement.target.id] = " ".join(text.replace("None", "null").split())
    return texts


def first_paragraph(kind: type) -> str:
    assert kind.__doc__, f"{kind.__name__} has no docstring"
    return " ".join(inspect.cleandoc(kind.__doc__).split("\n\n")[0].split())


def _shown(field: msgspec.structs.FieldInfo) -> str:
    """Its name, `?` if it may be null, and the values that it may have, if they are few words."""
    values = list(_literals(field.type))
    null = "?" if NoneType in get_args(field.type) else ""
    return f"`{field.encode_name}`{null}" + (f" `{'|'.join(values)}`" if values else "")


def _literals(kind: Any) -> Iterator[str]:
    if get_origin(kind) is Literal:
        yield from map(str, get_args(kind))
    elif get_origin(kind) is not dict:
        for part in get_args(kind):
            yield from _literals(part)
