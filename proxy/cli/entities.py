"""`memory-proxy entities …`: who is who in, what the running service says of them out.

By the service's API inside one scope. Exit codes: 0 done; 1 it cannot be, with the service's own sentence.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from policies.entity import Type
from proxy.cli.client import Client, quoted
from proxy.cli.verbs import add_verb, deleted, gets, key_value, run_verb, sends, with_answers

TEACHES: Final = """\
  memory-proxy entities list                                  learnt of what was said, or kept by hand
  memory-proxy entities add "Ana Kovac" person --alias Annie --property role=CTO
  memory-proxy entities change ID --alias Annie --alias "the boss"
  memory-proxy entities merge ID INTO                         they are one; split ID takes it back
  memory-proxy entities relate ID works_at ID
  memory-proxy entities near ID --hops 2                      who is near, and by what
  memory-proxy entities paths ID ID --hops 3

A question that names one by any of its names finds what was said under the others.
"""
PATH: Final = "/memory/v1/entities"
TIES: Final = "/memory/v1/relationships"
_FACET: Final = "how a person likes to be written to: tone=dry, as of a persona"


def arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs and their options."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    add = add_verb(verbs, "add", _add, "Keep a person or a thing.")
    add.add_argument("name")
    add.add_argument("type", choices=get_args(Type))
    add.add_argument("--namesake", action="store_true", help="another may have its names: they are two")
    listed = add_verb(verbs, "list", _list, "List people and things, newest first.")
    listed.add_argument("--type", help="of these types, with commas")
    listed.add_argument("--name", help="those that have this name")
    listed.add_argument("--limit", type=int, default=50)
    change = add_verb(verbs, "change", _change, "Say more of one; what is given replaces what was.")
    change.add_argument("entity", metavar="ID")
    change.add_argument("--name")
    change.add_argument("--type", choices=get_args(Type))
    for one in (add, change):
        one.add_argument("--alias", action="append", metavar="NAME", help="what else it is called")
        one.add_argument("--property", action="append", type=key_value, metavar="KEY=VALUE")
        one.add_argument("--facet", action="append", type=key_value, metavar="FACET=VALUE", help=_FACET)
        one.add_argument("--notes")
    merge = add_verb(verbs, "merge", _merge, "Both are one from now on.")
    merge.add_argument("entity", metavar="ID")
    merge.add_argument("into", metavar="INTO")
    relate = add_verb(verbs, "relate", _relate, "Tie two of them.")
    relate.add_argument("source", metavar="ID")
    relate.add_argument("type", metavar="TYPE", help="how, as a verb: works_at, part_of, sister")
    relate.add_argument("target", metavar="ID")
    relate.add_argument("--from", dest="valid_from", metavar="TIME", help="since when, RFC 3339")
    relate.add_argument("--to", dest="valid_to", metavar="TIME", help="until when")
    relate.add_argument("--property", action="append", type=key_value, metavar="KEY=VALUE")
    unrelate = add_verb(verbs, "unrelate", sends("DELETE", _one_tie), "Tie two no more.")
    unrelate.add_argument("relationship", metavar="ID", help="that of the tie, as `relate` and `near` say it")
    near = add_verb(verbs, "near", _near, "Who is near one, and by what.")
    near.add_argument("entity", metavar="ID")
    paths = add_verb(verbs, "paths", _paths, "The ways from one to another.")
    paths.add_argument("entity", metavar="ID")
    paths.add_argument("to", metavar="ID")
    for one in (near, paths):
        one.add_argument("--hops", type=int, default=1, choices=(1, 2, 3))
        one.add_argument("--type", help="by these ties alone, with commas")
        one.add_argument("--at", metavar="TIME", help="by what tied them then, RFC 3339 (default: now)")
    for verb, act, what in (
        ("show", gets(_one), "Show one."),
        ("history", gets(_one, "/history"), "How one became what it is."),
        ("split", sends("POST", _one, "/split"), "One that was merged stands for itself again."),
        ("delete", sends("DELETE", _one), "Hide one; it is not learnt again."),
        ("undelete", sends("POST", _one, "/undelete"), "Bring back one that was deleted."),
    ):
        add_verb(verbs, verb, act, what).add_argument("entity", metavar="ID")
    with_answers(verbs)


def run_entities(options: argparse.Namespace) -> int:
    """Do what the verb says."""
    return run_verb(options, _told)


def _said(options: argparse.Namespace) -> dict[str, Any]:
    given = {"name": options.name, "aliases": options.alias, "notes": options.notes}
    given |= {"properties": dict(options.property) if options.property else None}
    given |= {"facets": dict(options.facet) if options.facet else None, "type": options.type}
    return {name: value for name, value in given.items() if value is not None}


def _add(client: Client, options: argparse.Namespace) -> Any:
    return client.send("POST", PATH, {**_said(options), "namesake": options.namesake})


def _list(client: Client, options: argparse.Namespace) -> Any:
    return client.get(PATH, {"limit": options.limit, "type": options.type, "name": options.name})


def _change(client: Client, options: argparse.Namespace) -> Any:
    known = client.get(_one(options))
    return client.send("PATCH", _one(options), _said(options), version=known["version"])


def _merge(client: Client, options: argparse.Namespace) -> Any:
    return client.send("POST", f"{_one(options)}/merge", {"into": options.into})


def _relate(client: Client, options: argparse.Namespace) -> Any:
    tie = {name: getattr(options, name) for name in ("source", "type", "target", "valid_from", "valid_to")}
    tie["properties"] = dict(options.property) if options.property else None
    return client.send("POST", TIES, {name: value for name, value in tie.items() if value is not None})


def _near(client: Client, options: argparse.Namespace) -> Any:
    asked = {"hops": options.hops, "type": options.type, "at": options.at}
    return client.get(f"{_one(options)}/neighbours", asked)


def _paths(client: Client, options: argparse.Namespace) -> Any:
    asked = {"to": options.to, "hops": options.hops, "type": options.type, "at": options.at}
    return client.get(f"{_one(options)}/paths", asked)


def _one(options: argparse.Namespace) -> str:
    return f"{PATH}/{quoted(options.entity)}"


def _one_tie(options: argparse.Namespace) -> str:
    return f"{TIES}/{quoted(options.relationship)}"


def _told(verb: str, answer: Mapping[str, Any]) -> Iterable[str]:
    if verb == "list":
        yield from (_line(one) for one in answer["data"])
    elif verb == "history":
        yield from (f"{one['at'][:19]}  {one['what']:10} {one['other'] or ''}".rstrip() for one in answer["data"])
    elif verb == "near":
        yield from (f"{one['hops']}  {_line(one['entity'])}" for one in answer["entities"])
        yield from (_tie(one) for one in answer["relationships"])
    elif verb == "paths":
        ties = {one["id"]: one for one in answer["relationships"]}
        for way in answer["paths"]:
            yield "  then  ".join(ties[one]["says"] for one in way["relationships"])
    elif verb in ("relate", "unrelate"):
        yield _tie(answer) if verb == "relate" else f"{answer['id']} ties them no more"
    elif verb == "delete":
        yield deleted(answer["id"], answer)
    else:
        yield _line(answer)


def _tie(one: Mapping[str, Any]) -> str:
    return f"{one['id']}  {one['says']}"


def _line(one: Mapping[str, Any]) -> str:
    """One of them on one line, for people."""
    called = f"  ({', '.join(one['aliases'])})" if one["aliases"] else ""
    unsure = f"  shares {', '.join(one['ambiguous'])} with another" if one["ambiguous"] else ""
    return f"{one['id']}  {one['type']:12} {one['name']}{called}{unsure}{'  learnt' if one['learnt'] else ''}"
