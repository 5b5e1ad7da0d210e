"""Named SQL: `.sql` files in, Query values out.

A file holds queries, each under a header: its name, what it does, its parameters with their types, the index it uses
and its row's columns. A query is called by its name only. `conditions.sql` holds conditions that several queries
share, by name. Refuses, with ValueError, a name given twice, a parameter list with a gap and an unknown condition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

SQL_DIR: Final = Path(__file__).parent / "sql"
_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_CONDITION: Final = re.compile(r"^-- condition: (\w+)$", re.MULTILINE)
_SHARED: Final = re.compile(r"\{(\w+)\(([\w.]+)\)\}")
_PARAMETER: Final = re.compile(r"\$(\d+) (\w+) ([\w\[\]]+)")
_USES: Final = re.compile(r"Uses: ([^.]+)\.")
_ROWS: Final = re.compile(r"Rows: ([^.]+)\.")
_IDENTIFIER: Final = re.compile(r"^[a-z_][a-z0-9_]{0,62}$")


@dataclass(frozen=True, slots=True)
class Query:
    """One named question. `types` are the parameter types in order, `uses` indexes, `columns` the row's names,
    `embeddings` the table that it was fitted to.
    """

    name: str
    sql: str
    types: tuple[str, ...]
    uses: tuple[str, ...]
    columns: tuple[str, ...]
    embeddings: str = ""

    def of_table(self, embeddings: str) -> Query:
        """The same query on one model's embedding table. Raises ValueError for what is no plain table name."""
        if not _IDENTIFIER.match(embeddings):
            raise ValueError(f"not a table name: {embeddings!r}")
        uses = tuple(use.replace("{embeddings}", embeddings) for use in self.uses)
        return Query(
            self.name, self.sql.replace("{embeddings}", embeddings), self.types, uses, self.columns, embeddings
        )


@cache
def load_queries() -> Mapping[str, Query]:
    """Every query of the product by its name, read once in a process."""
    return queries_in(SQL_DIR)


def queries_in(directory: Path) -> Mapping[str, Query]:
    """Every query of a directory by its name."""
    queries: dict[str, Query] = {}
    conditions = _conditions(directory / "conditions.sql")
    for path in sorted(directory.glob("*.sql")):
        pieces = _NAME.split(path.read_text(encoding="utf-8"))
        for name, text in zip(pieces[1::2], pieces[2::2], strict=True):
            if name in queries:
                raise ValueError(f"{path}: query {name} is there twice")
            queries[name] = _parse(name, text, conditions)
    return MappingProxyType(queries)


def _conditions(path: Path) -> dict[str, str]:
    """The shared conditions of a directory by name; none where it has no such file."""
    pieces = _CONDITION.split(path.read_text(encoding="utf-8")) if path.exists() else [""]
    return {name: _body(text) for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def _parse(name: str, text: str, conditions: Mapping[str, str]) -> Query:
    header = "\n".join(line for line in text.splitlines() if line.startswith("--"))
    body = _SHARED.sub(lambda found: _condition(name, conditions, *found.groups()), _body(text))
    parameters = _PARAMETER.findall(header)
    if [int(number) for number, _, _ in parameters] != list(range(1, len(parameters) + 1)):
        raise ValueError(f"query {name}: parameters are not numbered 1, 2, 3 …")
    return Query(name, body, tuple(kind for _, _, kind in parameters), _listed(_USES, header), _listed(_ROWS, header))


def _body(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip().rstrip(";")


def _condition(query: str, conditions: Mapping[str, str], name: str, value: str) -> str:
    if name not in conditions:
        raise ValueError(f"query {query}: there is no condition {name}")
    return conditions[name].replace("{value}", value)


def _listed(pattern: re.Pattern[str], header: str) -> tuple[str, ...]:
    found = pattern.search(header)
    words = [word.strip() for word in found.group(1).replace("\n--", " ").split(",")] if found else []
    return tuple(word for word in words if word and word != "none")
