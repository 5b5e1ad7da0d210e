"""`memory-proxy tasks …`: what is to be done in, what the running service says of it out.

By the service's API inside one scope. Exit codes: 0 done; 1 it cannot be, with the service's own sentence.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, Final

from policies.labels import Sensitivity
from policies.task import STATUSES
from proxy.cli.client import CallFailed, Client, quoted
from proxy.cli.verbs import add_verb, deleted, gets, run_verb, sends, with_answers

TEACHES: Final = """\
  memory-proxy tasks add "Order the timber" --notes "Oak, 4 m."
  memory-proxy tasks add "Build the jetty" --needs ID --checkpoint "before the move"
  memory-proxy tasks list                                     open ones; --all: also what is over
  memory-proxy tasks move ID running                          change ID --notes "Oak, 5 m.": other words of it
  memory-proxy tasks graph                                    what is ready, what waits for what
  memory-proxy tasks history ID

A task is recalled when a question is about it, with how it stands; a prompt has it as a statement, quoted as data.
"""
PATH: Final = "/memory/v1/tasks"
_GRAPH_TASKS_MAX: Final = 1_000
"""As many open tasks as a graph has, and a page of the list."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs and their options."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    add = add_verb(verbs, "add", _add, "Keep a task.")
    add.add_argument("title", help="what is to be done, in a sentence")
    add.add_argument("--notes", default="", help="what helps to do it")
    add.add_argument("--input", default="", metavar="TEXT", help="what it starts from")
    add.add_argument("--status", choices=STATUSES, default="queued", help="where it stands (default: %(default)s)")
    add.add_argument("--sensitivity", choices=[one.value for one in Sensitivity], default="internal")
    add.add_argument("--needs", action="append", default=[], metavar="ID", help="what is to be done first")
    add.add_argument("--session", help="the conversation it comes from")
    add.add_argument("--checkpoint", metavar="NAME", help="the checkpoint that its work goes on from")
    listed = add_verb(verbs, "list", _list, "List tasks, newest first.")
    listed.add_argument("--all", action="store_true", help="also what is done, failed or cancelled")
    listed.add_argument("--session", help="only those of this conversation")
    listed.add_argument("--limit", type=int, default=50)
    move = add_verb(verbs, "move", _change, "Say where a task stands now.")
    move.add_argument("task", metavar="ID")
    move.add_argument("status", choices=STATUSES)
    change = add_verb(verbs, "change", _change, "Say otherwise what it is; what is given replaces what was.")
    change.add_argument("task", metavar="ID")
    change.add_argument("--title", metavar="TEXT", help="what is to be done")
    change.add_argument("--needs", action="append", metavar="ID", help="all that is to be done first")
    named = change.add_mutually_exclusive_group()
    named.add_argument("--checkpoint", metavar="NAME", help="the checkpoint that its work goes on from")
    named.add_argument("--no-checkpoint", action="store_true", help="it goes on from none")
    for one in (move, change):
        one.add_argument("--notes", metavar="TEXT", help="what helps to do it")
        one.add_argument("--input", metavar="TEXT", help="what it starts from")
        one.add_argument("--output", metavar="TEXT", help="what came of it")
    add_verb(verbs, "graph", _graph, "What is ready, and what waits for what.")
    for verb, act, what in (
        ("show", gets(_one), "Show a task."),
        ("history", gets(_one, "/history"), "How a task came where it is."),
        ("delete", sends("DELETE", _one), "Hide a task."),
        ("undelete", sends("POST", _one, "/undelete"), "Bring back a task that was deleted."),
    ):
        add_verb(verbs, verb, act, what).add_argument("task", metavar="ID")
    with_answers(verbs)


def run_tasks(options: argparse.Namespace) -> int:
    """Do what the verb says."""
    return run_verb(options, _told)


def _add(client: Client, options: argparse.Namespace) -> Any:
    task = {name: getattr(options, name) for name in ("title", "status", "notes", "input", "needs", "sensitivity")}
    task |= {} if options.checkpoint is None else {"checkpoint": options.checkpoint}
    body = {"tasks": [task], **({} if options.session is None else {"session": options.session})}
    return client.send("POST", PATH, body)["data"][0]


def _list(client: Client, options: argparse.Namespace) -> Any:
    status = None if options.all else "open"
    return client.get(PATH, {"limit": options.limit, "status": status, "session": options.session})


def _change(client: Client, options: argparse.Namespace) -> Any:
    known = client.get(_one(options))
    members = ("title", "status", "notes", "input", "output", "needs", "checkpoint")
    given = {name: value for name in members if (value := getattr(options, name, None)) is not None}
    given |= {"checkpoint": None} if getattr(options, "no_checkpoint", False) else {}
    return client.send("PATCH", _one(options), given, version=known["version"])


def _graph(client: Client, options: argparse.Namespace) -> Any:
    """The API's answer; for people with what the tasks are called, by id."""
    graph = client.get(f"{PATH}/graph")
    if not options.json:
        tasks = client.get(PATH, {"limit": _GRAPH_TASKS_MAX, "status": "open"})["data"]
        graph["titles"] = {one["id"]: one["title"] for one in tasks}
    return graph


def _one(options: argparse.Namespace) -> str:
    """The path of a task. Raises CallFailed for the one word that leads elsewhere."""
    if options.task == "graph":
        raise CallFailed("graph is no id of a task; `memory-proxy tasks graph` shows what waits for what")
    return f"{PATH}/{quoted(options.task)}"


def _told(verb: str, answer: Mapping[str, Any]) -> Iterable[str]:
    if verb == "list":
        yield from (_line(one) for one in answer["data"])
    elif verb == "history":
        yield from (f"{one['at'][:19]}  {_moved(one)}" for one in answer["data"])
    elif verb == "graph":
        titles = answer["titles"]
        yield from (f"ready    {one}  {titles.get(one, '')}" for one in answer["ready"])
        for one, wanted in answer["waiting"].items():
            yield f"waiting  {one}  {titles.get(one, '')}  (waits for {', '.join(wanted)})"
    elif verb == "delete":
        yield deleted(answer["id"], answer)
    else:
        yield _line(answer)
        told = (f"{name}: {answer[name]}" for name in ("notes", "input", "output") if answer[name])
        yield from told if verb == "show" else ()


def _moved(step: Mapping[str, Any]) -> str:
    """Where a task came from and went; of one that stayed there, that what it says was changed."""
    stayed = step["was"] == step["status"]
    return f"{step['was'] or '':10} -> {step['status']}" if not stayed else f"{step['status']:10}    changed"


def _line(one: Mapping[str, Any]) -> str:
    """A task on one line, for people."""
    waits = f"  (waits for {', '.join(one['waits_for'])})" if one["waits_for"] else ""
    from_where = f"  (checkpoint {one['checkpoint']})" if one["checkpoint"] else ""
    return f"{one['id']}  {one['status']:10} {one['title']}{waits}{from_where}"
