"""`memory-proxy checkpoint …`: a name and options in, what the running service says of checkpoints out.

By the service's API inside one scope. Exit codes: 0 done; 1 it cannot be, with the service's own sentence.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from policies.labels import Sensitivity
from proxy.cli.client import CallFailed, Client, quoted
from proxy.cli.verbs import add_verb, deleted, run_verb, sends, with_answers

TEACHES: Final = """\
  memory-proxy checkpoint save "before the move" --session abc --notes "We stopped at the estimate."
  memory-proxy checkpoint save plan --goal "Ship by Friday" --entity "Ansel: reviewer" --persona concise
  memory-proxy checkpoint list --session abc
  memory-proxy checkpoint show "before the move"            what it holds; --version 1: an earlier one
  memory-proxy checkpoint load "before the move" --session xyz     given to that conversation with its next message
  memory-proxy checkpoint load plan --session xyz --from-project sea     taken from another project first
  memory-proxy checkpoint diff "before the move" --from 1 --to 2   or another name: diff A B
  memory-proxy checkpoint branch "before the move" "plan B"
  memory-proxy checkpoint delete "before the move"          undelete brings it back within 30 days

A client names one with the header X-Memory-Checkpoint: before%20the%20move, or {"memory": {"checkpoint": NAME}} in its
body.
"""
PATH: Final = "/memory/v1/checkpoints"


def arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs and their options."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    save = add_verb(verbs, "save", _save, "Keep a conversation, and what you say here, under a name.")
    save.add_argument("name")
    save.add_argument("--session", help="the conversation, as X-Memory-Session says it")
    save.add_argument("--no-summary", action="store_true", help="leave the conversation's rolling summary out")
    _said(save)
    change = add_verb(verbs, "change", _change, "The next version: what is given here replaces what was there.")
    change.add_argument("name")
    change.add_argument("--refresh", action="store_true", help="take the conversation as it stands now")
    _said(change)
    listing = add_verb(verbs, "list", _list, "List checkpoints, newest first.")
    listing.add_argument("--session", help="only those of this conversation")
    listing.add_argument("--limit", type=int, default=50)
    show = add_verb(verbs, "show", _show, "Show what a checkpoint holds.")
    show.add_argument("name")
    show.add_argument("--version", type=int, metavar="N", help="an earlier one (default: the current)")
    load = add_verb(verbs, "load", _load, "Have a conversation be given it with its next message, once.")
    load.add_argument("name")
    load.add_argument("--session", required=True, help="the conversation")
    load.add_argument("--from-project", metavar="PROJECT", help="take it from another project of the same user first")
    load.add_argument("--as", dest="new_name", metavar="NAME", help="what one of another project is called here")
    diff = add_verb(verbs, "diff", _diff, "Compare two checkpoints, or two versions of one.")
    diff.add_argument("name")
    diff.add_argument("other", nargs="?", help="another checkpoint (default: the same one)")
    diff.add_argument("--from", type=int, dest="from_version", metavar="N", help="its version (default: the current)")
    diff.add_argument("--to", type=int, dest="to_version", metavar="N", help="the other's (default: the current)")
    branch = add_verb(verbs, "branch", _branch, "Another name for what it holds now, which goes on by itself.")
    branch.add_argument("name")
    branch.add_argument("new_name")
    branch.add_argument("--from-project", metavar="PROJECT", help="take it from another project of the same user")
    for verb, run, what in (
        ("delete", sends("DELETE", _one), "Hide a checkpoint; what it was made of stays."),
        ("undelete", sends("POST", _one, "/undelete"), "Bring back the one of this name that was deleted last."),
    ):
        add_verb(verbs, verb, run, what).add_argument("name")
    with_answers(verbs)


def _said(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--notes", metavar="TEXT", help="a note to whoever goes on from here; - reads standard input")
    for name, what in (
        ("goal", "a goal"),
        ("task", "what is still to do"),
        ("entity", "who or what it is about, in words or by its id"),
    ):
        parser.add_argument(f"--{name}", action="append", metavar="TEXT", help=f"{what}; may be repeated")
    for name in ("memory", "document", "preference"):
        parser.add_argument(f"--{name}", action="append", metavar="ID", help=f"exactly this {name}; may be repeated")
    parser.add_argument("--persona", metavar="NAME", help="how answers are asked to be: a name, or tone=dry …")
    parser.add_argument("--sensitivity", choices=[one.value for one in Sensitivity], help="of what is said here")
    parser.add_argument("--trim", action="store_true", help="where it is too long, leave out the end of it")


def run_checkpoint(options: argparse.Namespace) -> int:
    """Do what the verb says."""
    return run_verb(options, _told)


def _save(client: Client, options: argparse.Namespace) -> Any:
    of = _given(session=options.session, summary=False if options.no_summary else None)
    return client.send("POST", PATH, {"name": options.name, **_body(options), **of})


def _change(client: Client, options: argparse.Namespace) -> Any:
    known = client.get(_one(options))
    body = {**_body(options), **({"refresh": True} if options.refresh else {})}
    return client.send("PATCH", _one(options), body, version=known["version"])


def _list(client: Client, options: argparse.Namespace) -> Any:
    return client.get(PATH, {"limit": options.limit, "session": options.session})


def _show(client: Client, options: argparse.Namespace) -> Any:
    return client.get(_one(options), {"version": options.version})


def _load(client: Client, options: argparse.Namespace) -> Any:
    body = _given(session=options.session, from_project=options.from_project, name=options.new_name)
    return client.send("POST", f"{_one(options)}/load", body)


def _diff(client: Client, options: argparse.Namespace) -> Any:
    if options.other is None and options.from_version is None and options.to_version is None:
        raise CallFailed("say what it is compared with: another checkpoint, or --from N, a version of its own")
    asked = {"with": options.other, "from": options.from_version, "to": options.to_version}
    return client.get(f"{_one(options)}/diff", asked)


def _branch(client: Client, options: argparse.Namespace) -> Any:
    taken = _given(from_project=options.from_project)
    return client.send("POST", f"{_one(options)}/branch", {"name": options.new_name, **taken})


def _one(options: argparse.Namespace) -> str:
    return f"{PATH}/{quoted(options.name)}"


def _body(options: argparse.Namespace) -> dict[str, Any]:
    return _given(
        notes=_typed() if options.notes == "-" else options.notes,
        goals=options.goal,
        tasks=options.task,
        entities=options.entity,
        memories=options.memory,
        documents=options.document,
        preferences=options.preference,
        persona=options.persona,
        sensitivity=options.sensitivity,
        trim=options.trim or None,
    )


def _typed() -> str:
    """What comes on standard input. Raises CallFailed."""
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as fault:
        what = f"the notes on standard input are not {fault.encoding}: {fault.reason} at byte {fault.start}"
        raise CallFailed(what) from fault


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _told(verb: str, answer: Mapping[str, Any]) -> Iterable[str]:
    """An answer for people."""
    if verb == "list":
        yield from (listed(one) for one in answer["data"])
    elif verb == "diff":
        yield from differences(answer)
    elif verb == "load":
        parts, session = answer["parts"], answer["session"]
        yield f"{answer['name']} (version {answer['version']}, {parts} parts) goes to {session} with its next message"
        if answer["trimmed"]:
            yield f"{answer['trimmed']} parts stayed in the other project"
    elif verb == "delete":
        yield deleted(answer["name"], answer)
    else:
        yield from held(answer)


def listed(one: Mapping[str, Any]) -> str:
    """A line of a list."""
    of = f"  of {one['session']}" if one["session"] else ""
    size = f"{one['parts']:3} parts  {one['tokens']:5} tokens"
    return f"{one['changed_at'][:16]}  v{one['version']}  {size}  {one['name']}{of}"


def held(one: Mapping[str, Any]) -> Iterable[str]:
    """What a checkpoint holds, for people."""
    yield f"{one['name']}, version {one['version']} of {one['current_version']}, about {one['tokens']} tokens"
    for part in one["parts"]:
        state = f" [{part['state']}]" if part["state"] else ""
        first, *more = part["content"].splitlines() or [""]
        yield f"  {part['part']:10} {first}{state}"
        yield from (f"  {'':10} {line}" for line in more)
    if one["withheld"]:
        yield f"  {one['withheld']} parts are not for this key"
    if one["trimmed"]:
        yield f"  {one['trimmed']} parts were left out: too long"


def differences(diff: Mapping[str, Any]) -> Iterable[str]:
    """How two differ, for people."""
    names = diff["name"], diff["version"], diff["with_name"], diff["with_version"]
    yield "{} v{} -> {} v{}".format(*names)
    yield from (f"+ {one['part']}: {one['content']}" for one in diff["added"])
    yield from (f"- {one['part']}: {one['content']}" for one in diff["removed"])
    for one in diff["changed"]:
        yield f"~ {one['part']}"
        yield from (f"  {line}" for line in one["unified"].splitlines())
    yield f"{diff['same']} the same"
