"""Settings in words: a field -> what it takes, a value -> how it is shown, a section -> commented YAML lines.

Pure; refuses to show a secret, whatever it is asked.
"""

from __future__ import annotations

import json
import re
import textwrap
import types
import typing
from collections.abc import Iterator
from pathlib import Path

from annotated_types import Ge, Gt, Le, Lt
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from memory.config_file import parse_scalar
from memory.config_values import Expects, Section

COMMENT_COLUMNS_MAX = 112
UNITS = (
    ("_ms", "milliseconds"),
    ("_s", "seconds"),
    ("_bytes", "bytes"),
    ("_bytes_max", "bytes"),
    ("_days", "days"),
    ("tokens_max", "tokens"),
)


def expectation(field: FieldInfo) -> str:
    """What a field takes, in words: `a whole number, 1 to 65535`."""
    return _described(field.annotation, field.metadata)


def rendered_key(key: str, field: FieldInfo, value: object, indent: str) -> Iterator[str]:
    """The comment lines of one setting (meaning, what it takes, unit, default), then its line."""
    unit = next((f" {word}" for suffix, word in UNITS if key.endswith(suffix)), "")
    secret = isinstance(value, SecretStr)
    kept_out = " It is set, and kept out of this file." if secret else ""
    comment = f"{field.description}{kept_out} [{expectation(field)}; default {scalar(field.default)}{unit}]"
    yield from textwrap.wrap(
        comment, COMMENT_COLUMNS_MAX, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}#   "
    )
    yield f"{indent}{key}: {scalar(None if secret else value)}"


def scalar(value: object) -> str:
    """A value as YAML 1.2; JSON is a subset of it, and plain words stay plain."""
    plain = str(value) if isinstance(value, str | Path) else None
    if plain is not None and re.fullmatch(r"[A-Za-z/~.][\w./~-]*(?::[\w./~-]+)*|\d+(?:\.\d+){3}", plain):
        return plain if isinstance(parse_scalar(plain), str) else json.dumps(plain)
    return json.dumps(plain if plain is not None else value, ensure_ascii=plain is None or not plain.isprintable())


def shown(field: FieldInfo, value: object) -> str:
    """A value that was refused, as an error may show it: short, and never a secret."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a section"
    if is_secret(field):
        return "a value that is not shown"
    text = re.sub(r"://[^\"]*@", "://…@", json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= 80 else f"{text[:77]}…"


def is_secret(field: FieldInfo) -> bool:
    """Whether its value is never shown."""
    return any(getattr(member, "__origin__", member) is SecretStr for member in members(field.annotation))


def section_type(field: FieldInfo) -> type[Section] | None:
    """The model of a section; None for a plain setting."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def members(annotation: object) -> tuple[object, ...]:
    """The alternatives of a union (`X | None`), else the annotation itself."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return typing.get_args(annotation)
    return (annotation,)


def _described(annotation: object, metadata: list[object]) -> str:
    said = next((item.text for item in metadata if isinstance(item, Expects)), None)
    if said is not None:
        return said
    if typing.get_origin(annotation) is typing.Annotated:
        inner, *extra = typing.get_args(annotation)
        return _described(inner, extra)
    if typing.get_origin(annotation) is typing.Literal:
        return " or ".join(map(str, typing.get_args(annotation)))
    choices = members(annotation)
    if len(choices) > 1:
        return " or ".join("null" if choice is type(None) else _described(choice, metadata) for choice in choices)
    words = {int: "a whole number", float: "a number", bool: "true or false"}
    name = next((text for kind, text in words.items() if annotation is kind), "text")
    return name + _bounds(metadata)


def _bounds(metadata: list[object]) -> str:
    parts = []
    for item in metadata:
        match item:
            case Ge(bound) | Gt(bound):
                parts.append(f"{'from' if isinstance(item, Ge) else 'above'} {bound}")
            case Le(bound) | Lt(bound):
                parts.append(f"{'to' if isinstance(item, Le) else 'below'} {bound}")
    return f" {' '.join(parts)}" if parts else ""
