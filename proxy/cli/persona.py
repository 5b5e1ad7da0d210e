"""`memory-proxy persona …`: a name and facets in, what the running service says of personas out.

By the service's API inside one scope. Exit codes: 0 done; 1 it cannot be, with the service's own sentence.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, Final

from policies.persona import FACETS, LANGUAGES
from proxy.cli.client import Client, quoted
from proxy.cli.verbs import add_verb, deleted, gets, run_verb, sends, with_answers

TEACHES: Final = """\
  memory-proxy persona save "desk" --tone dry --verbosity short --text "Likes nautical words."
  memory-proxy persona list                                   yours, then those that everybody has
  memory-proxy persona change desk --language sl --interest sailing --interest "old maps"
  memory-proxy persona delete desk                            undelete brings it back within 30 days

A client asks for one with the header X-Memory-Persona: desk; for facets alone: tone=dry;verbosity=short; for both:
desk;language=sl. What a prompt is given is a statement about the wish, quoted as data.
"""
PATH: Final = "/memory/v1/personas"


def arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs and their options."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    add_verb(verbs, "list", _list, "List personas.")
    save = add_verb(verbs, "save", _save, "Keep a persona under a name.")
    change = add_verb(verbs, "change", _change, "The next version: what is given here replaces what was there.")
    for one in (save, change):
        one.add_argument("name")
        for facet, values in (*FACETS.items(), ("language", LANGUAGES)):
            one.add_argument(f"--{facet}", choices=list(values), metavar="VALUE", help=", ".join(values))
        one.add_argument(
            "--interest", action="append", metavar="WORDS", help="what you are interested in; may be repeated"
        )
        one.add_argument("--text", metavar="TEXT", help="what no facet says, as a statement about what you like")
    for verb, act, what in (
        ("show", gets(_one), "Show a persona."),
        ("delete", sends("DELETE", _one), "Hide a persona."),
        ("undelete", sends("POST", _one, "/undelete"), "Bring back the one of this name that was deleted last."),
    ):
        add_verb(verbs, verb, act, what).add_argument("name")
    with_answers(verbs)


def run_persona(options: argparse.Namespace) -> int:
    """Do what the verb says."""
    return run_verb(options, _told)


def _list(client: Client, _options: argparse.Namespace) -> Any:
    return client.get(PATH)


def _save(client: Client, options: argparse.Namespace) -> Any:
    return client.send("POST", PATH, {"name": options.name, "facets": _facets(options), **_text(options)})


def _change(client: Client, options: argparse.Namespace) -> Any:
    known = client.get(_one(options))
    facets = {**known["facets"], **_facets(options)}
    return client.send("PATCH", _one(options), {"facets": facets, **_text(options)}, version=known["version"])


def _one(options: argparse.Namespace) -> str:
    return f"{PATH}/{quoted(options.name)}"


def _facets(options: argparse.Namespace) -> dict[str, str]:
    return {facet: value for facet in (*FACETS, "language") if (value := getattr(options, facet)) is not None}


def _text(options: argparse.Namespace) -> dict[str, Any]:
    said = {"description": options.text, "interests": options.interest}
    return {member: value for member, value in said.items() if value is not None}


def _told(verb: str, answer: Mapping[str, Any]) -> Iterable[str]:
    if verb == "list":
        yield from (line_of(one) for one in answer["data"])
    elif verb == "delete":
        yield deleted(answer["name"], answer)
    else:
        yield line_of(answer)


def line_of(one: Mapping[str, Any]) -> str:
    """A persona on one line, for people."""
    mark = "  (everybody's)" if one["built_in"] else ""
    state = f" [{one['state']}]" if one["state"] else ""
    return f"{one['name']:16} v{one['version']}  {one['text']}{state}{mark}"
