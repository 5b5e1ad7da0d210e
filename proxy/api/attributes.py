"""What a person writes into a memory's attributes: an object as given in, as it may be stored out.

Members that stay as they were are left alone. Every other text passes redaction, beside its name, which says that it is
a password; what addresses the model is refused like such content. Raises Unprocessable, naming the member.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from memory.errors import Unprocessable
from memory.stored import MemoryRecord
from memory.write.parts import Redacts, cleaned_value
from policies.attributes import excess_in, fault_in
from policies.text import storable_json
from proxy.api.screening import clean_beside, require_no_secret

RECORDS: Final[Mapping[str, str]] = {
    "artifact": "artifacts",
    "entity": "entities or /memory/v1/relationships",
    "persona": "personas",
    "task": "tasks",
}
"""Collections of which a record writes the words and attributes, and the calls that change one."""


def require_not_of_record(known: MemoryRecord, members: set[str]) -> None:
    """Raise Unprocessable where a record's memory is to get other words than the record has."""
    calls = RECORDS.get(known.collection)
    for member in sorted(members & {"attributes", "content"}) if calls is not None else ():
        raise Unprocessable(f"{member} of this memory are its record's: change it by /memory/v1/{calls}", param=member)


def checked(given: dict[str, Any], known: MemoryRecord) -> dict[str, Any]:
    """Attributes of a bounded size whose reserved members have their shape. Raises Unprocessable."""
    if (excess := excess_in(given)) is not None:
        raise Unprocessable(f"attributes: {excess}", param="attributes")
    stored: dict[str, Any] = storable_json(given)
    if (fault := fault_in(known.kind, stored, known.attributes)) is not None:
        raise Unprocessable(f"attributes: {fault}", param="attributes")
    return stored


def cleaned(given: Mapping[str, Any], known: Mapping[str, Any], redactor: Redacts) -> dict[str, Any]:
    """Without secrets. Raises Unprocessable for one in a name."""
    return {
        _plain(name, redactor): value if name in known and known[name] == value else _cleaned(value, name, redactor)
        for name, value in given.items()
    }


def words_of(given: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """All that new members say, a line each: names and texts."""
    new = {name: value for name, value in given.items() if name not in known or known[name] != value}
    return "\n".join(_lines(new, ""))


def _cleaned(value: Any, name: str, redactor: Redacts) -> Any:
    if isinstance(value, str):
        return clean_beside(name, cleaned_value(value, redactor)[0], redactor)
    if isinstance(value, list):
        return [_cleaned(one, name, redactor) for one in value]
    if isinstance(value, dict):
        return {_plain(inner, redactor): _cleaned(one, inner, redactor) for inner, one in value.items()}
    return value


def _plain(name: str, redactor: Redacts) -> str:
    require_no_secret(name, redactor, "attributes")
    return name


def _lines(value: Any, name: str) -> Iterator[str]:
    if isinstance(value, dict):
        for inner, one in value.items():
            yield from _lines(one, inner)
    elif isinstance(value, list):
        for one in value:
            yield from _lines(one, name)
    else:
        yield f"{name.replace('_', ' ')} {value}"  # no colon: "system: prod" would read as a role's line
