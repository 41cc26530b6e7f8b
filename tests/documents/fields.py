"""Tables of fields for the documents, made from the types and the texts under their fields."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import Any

import msgspec


def field_table(kind: type[msgspec.Struct]) -> str:
    """A Markdown table: field, type, default, meaning."""
    meanings = _texts(kind)
    lines = ["| field | type | meaning |", "| --- | --- | --- |"]
    for field in msgspec.structs.fields(kind):
        meaning = " ".join(meanings.get(field.name, "").split())
        if field.default is not msgspec.NODEFAULT:
            shown = getattr(field.default, "value", field.default)
            meaning = f"{meaning} Default: `{shown!r}`.".strip()
        lines.append(f"| `{field.encode_name}` | {_type_name(field.type)} | {meaning} |")
    return "\n".join(lines)


def first_paragraph(kind: type) -> str:
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def _texts(kind: type) -> dict[str, str]:
    """Field -> the string literal under it, of the class and its bases."""
    texts: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if each in (object, msgspec.Struct) or not issubclass(each, msgspec.Struct):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(definition, ast.ClassDef)
        for statement, following in zip(definition.body, definition.body[1:], strict=False):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                text = getattr(getattr(following, "value", None), "value", None)
                if isinstance(following, ast.Expr) and isinstance(text, str):
                    texts[statement.target.id] = text
    return texts


def _type_name(kind: Any) -> str:
    text = kind.__name__ if isinstance(kind, type) else str(kind)
    text = re.sub(r"typing\.|schemas\.\w+\.", "", text)
    text = re.sub(r"Annotated\[(\w+), [^\]]*\]", r"\1", text)
    return text.replace("|", "or").replace(", ...]", "]").replace("NoneType", "None")
