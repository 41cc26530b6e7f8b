"""Lists of fields for the documents, made from the types and the texts under their fields."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Collection
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

IN_EVERY_DOCUMENT = "schema_version"


def field_list(kind: type[msgspec.Struct], *, without: Collection[str] = (), label: str = "") -> str:
    """Markdown: one line where no field needs words, else a bullet for each field."""
    meanings = _texts(kind)
    listed_fields = [
        field for field in msgspec.structs.fields(kind) if field.encode_name not in (*without, IN_EVERY_DOCUMENT)
    ]
    lines = [f"`{field.encode_name}` {_type_name(field.type)}{_default(field)}" for field in listed_fields]
    texts = [" ".join(meanings.get(field.name, "").replace("None", "null").split()) for field in listed_fields]
    if not any(texts):
        return f"{label} {', '.join(lines)}".strip()
    bullets = (f"- {line}: {text}" if text else f"- {line}" for line, text in zip(lines, texts, strict=True))
    return (f"{label}\n\n" if label else "") + "\n".join(bullets)


def field_names(kind: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def first_paragraph(kind: type) -> str:
    assert kind.__doc__, f"{kind.__name__} has no docstring"
    return " ".join(inspect.cleandoc(kind.__doc__).split("\n\n")[0].split())


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default in (msgspec.NODEFAULT, msgspec.UNSET, None):
        return ""
    return f" = {msgspec.json.encode(field.default).decode()}"


def _texts(kind: type) -> dict[str, str]:
    """Field -> the string literal under it, of the class and its bases."""
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
                    texts[statement.target.id] = text
    return texts


def _type_name(kind: Any) -> str:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _type_name(parts[0])
    if origin in (Union, UnionType):
        null = "?" if NoneType in parts else ""
        named_parts = (part for part in parts if part not in (NoneType, msgspec.UnsetType))
        return " or ".join(map(_type_name, named_parts)) + null
    if origin is Literal:
        return f"`{'|'.join(map(str, parts))}`"
    if origin is tuple:
        return f"[{_type_name(parts[0])}]"
    if origin is dict:
        return f"{{{_type_name(parts[0])}: {_type_name(parts[1])}}}"
    return str(getattr(kind, "__name__", kind))
