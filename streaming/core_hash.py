"""The hash of everything that decides the bytes of an answer: the core's code and its settings.

Two processes with the same hash say the same answers to the same log. The code counts as it is parsed: a comment or a
docstring that changes does not change the hash. Of server assignors of other packages, the packages' versions count.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec

from coordinator_state.consumer.assignors import server_assignor_source
from streaming.operator_config import OperatorConfig

_HASH_BYTES = 16
_PACKAGES = ("schemas", "coordinator_state")
_DEFINITIONS = "schemas/kafka/"
"""Kafka's definitions of messages and records are data, and decide bytes as code does."""
_MODULES = ("rows.py", "operator.py")
"""Of `streaming`: what makes events of records, and records of outputs."""


def core_hash(config: OperatorConfig) -> str:
    """Return the hash of this installation's core with the settings of a shard, in hexadecimal digits."""
    settings = (
        config.group,
        config.topics,
        config.partition,
        config.offsets_partitions,
        config.output_max_bytes,
        msgspec.__version__,
        version("google-re2"),
        {name: server_assignor_source(name) for name in config.group.consumer_assignors},
    )
    digest = hashlib.blake2b(code_digest(), digest_size=_HASH_BYTES)
    digest.update(repr(settings).encode())
    return digest.hexdigest()


@cache
def code_digest() -> bytes:
    """Return the digest of the code."""
    digest = hashlib.blake2b()
    for package in _PACKAGES:
        _add(digest, files(package), package)
    for name in _MODULES:
        _add_module(digest, files("streaming").joinpath(name), f"streaming/{name}")
    return digest.digest()


def _add(digest: hashlib.blake2b, directory: Traversable, path: str) -> None:
    for entry in sorted(directory.iterdir(), key=lambda entry: entry.name):
        name = f"{path}/{entry.name}"
        if entry.is_dir() and entry.name != "__pycache__":
            _add(digest, entry, name)
        elif entry.name.endswith(".py"):
            _add_module(digest, entry, name)
        elif path.startswith(_DEFINITIONS):
            digest.update(f"{name}\n".encode() + entry.read_bytes())


def _add_module(digest: hashlib.blake2b, module: Traversable, name: str) -> None:
    digest.update(f"{name}\n{parsed_code(module.read_text('utf-8'))}\n".encode())


def parsed_code(text: str) -> str:
    """Return the code of a module without comments and docstrings, as one string."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [statement for statement in node.body if not _is_string(statement)] or [ast.Pass()]
    return ast.dump(tree)


def _is_string(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
