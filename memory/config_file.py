"""YAML with line numbers: text -> values, the line of each key, and every fault found on the way.

A configuration has two levels: `section: {key: value}` or `key: value`, where a value is a scalar or a list of scalars.
Scalars follow YAML 1.2's core schema, so `off` is the word "off" and `010` is text, never a boolean or an octal number.
Refuses duplicate keys, deeper nesting, tags and several documents. Knows nothing of which keys exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

FILE_BYTES_MAX = 1_048_576
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
# What PyYAML may quote that tells nothing of a value: a character, an escape, a name of the grammar.
_OF_YAML = re.compile(r"(['\"])(?:.|\\.|<[a-z ]+>)\1")


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: where it stands (`config.yaml:3`, `environment`), the dotted key ("" for the file), what is wrong."""

    where: str
    key: str
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.key, self.text) if part)


@dataclass(frozen=True, slots=True)
class Parsed:
    """`values` by dotted key, `lines` (from 1) by dotted key and by section, `problems` in order of lines."""

    values: Mapping[str, object] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


class CoreLoader(yaml.SafeLoader):
    """SafeLoader with the scalars of YAML 1.2's core schema."""


CoreLoader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*)$", "-+0123456789"),
    ("float", r"^[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
):
    CoreLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}",
        re.compile(_pattern),
        [*_first.replace("\0", ""), *([""] if "\0" in _first else [])],
    )


def parse_scalar(text: str) -> object:
    """A value from the environment or the command line: a scalar or a flow list; text that is not YAML is itself."""
    try:
        node = yaml.compose(text, Loader=CoreLoader)
        return _construct(node) if node is not None else None
    except (yaml.YAMLError, ValueError, RecursionError):
        return text


def parse_config(text: str, name: str) -> Parsed:
    """Read a configuration; `name` is how the file is called in problems. Raises nothing: faults are in `problems`."""
    try:
        root = yaml.compose(text, Loader=CoreLoader)
    except yaml.YAMLError as error:
        return Parsed(problems=(_syntax_problem(error, name),))
    except RecursionError:
        return Parsed(problems=(Problem(name, "", "not YAML of ours: nested too deeply"),))
    if root is None or (isinstance(root, ScalarNode) and root.tag.endswith(":null")):
        return Parsed()
    if not isinstance(root, MappingNode):
        return Parsed(problems=(Problem(f"{name}:1", "", f"expected sections, found {kind_of(root)}"),))
    reader = _Reader(name)
    reader.mapping(root, "")
    return Parsed(reader.values, reader.lines, tuple(reader.problems))


def kind_of(node: Node) -> str:
    """The node in words, without its content."""
    if isinstance(node, MappingNode):
        return "a mapping"
    return "a list" if isinstance(node, SequenceNode) else "a single value"


class _Reader:
    """Walks two levels of mappings and collects values, lines and problems."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: dict[str, object] = {}
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []

    def mapping(self, node: MappingNode, prefix: str) -> None:
        for key, line, child in self._members(node, prefix):
            self.lines[key] = line
            if isinstance(child, MappingNode) and not prefix:
                self.mapping(child, f"{key}.")
            else:
                self._value(key, line, child)

    def _members(self, node: MappingNode, prefix: str) -> Iterator[tuple[str, int, Node]]:
        for key_node, child in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                self._problem(line, prefix.rstrip("."), f"expected a name, found {kind_of(key_node)}")
                continue
            key = f"{prefix}{key_node.value}"
            if key in self.lines:
                self._problem(line, key, f"given twice; first in line {self.lines[key]}")
                continue
            yield key, line, child

    def _value(self, key: str, line: int, node: Node) -> None:
        try:
            self.values[key] = _construct(node)
        except (yaml.YAMLError, ValueError):
            self._problem(line, key, "expected a plain value or a list of plain values")

    def _problem(self, line: int, key: str, text: str) -> None:
        self.problems.append(Problem(f"{self.name}:{line}", key, text))


def _construct(node: Node) -> object:
    """Scalar or list of scalars. Raises ValueError on anything deeper (recursive aliases included) or tagged."""
    if isinstance(node, SequenceNode):
        if not all(isinstance(item, ScalarNode) for item in node.value):
            raise ValueError("nested")
        return [_construct(item) for item in node.value]
    if not isinstance(node, ScalarNode):
        raise ValueError("a mapping")
    match node.tag.removeprefix("tag:yaml.org,2002:"):
        case "null":
            return None
        case "bool":
            return node.value.lower() == "true"
        case "int":
            return int(node.value)
        case "float":
            return float(node.value)
        case "str":
            return str(node.value)
        case _:
            raise ValueError("a tag")


def _syntax_problem(error: yaml.YAMLError, name: str) -> Problem:
    """The place and nature of a syntax error, without the file's text: a line may hold a secret."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return Problem(name, "", "not YAML: a character that may not stand in a file")
    quoted = _QUOTED.sub(
        lambda found: found[0] if _OF_YAML.fullmatch(found[0]) else "'…'", error.problem or "cannot be read"
    )
    mark = error.problem_mark
    remedy = "; it is a tab, and only spaces indent" if "'\\t'" in quoted else ""
    return Problem(f"{name}:{mark.line + 1}", "", f"not YAML (column {mark.column + 1}): {quoted}{remedy}")
