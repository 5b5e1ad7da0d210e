"""The verbs of a command whose acts are calls of the API: parsers in, an exit code out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, Final

from proxy.cli.client import CallFailed, Client, with_service
from proxy.cli.shown import NONE, say_more, show_all, show_json, show_rows

_TEXTS: Final = frozenset({"show", "caption", "diff"})
"""Verbs that show texts as they are; of the others each line is a thing."""
Act = Callable[[Client, argparse.Namespace], Any]
At = Callable[[argparse.Namespace], str]


def add_verb(verbs: Any, name: str, act: Act, what: str) -> argparse.ArgumentParser:
    """One verb; `act` gives the service's answer."""
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=what, description=what)
    parser.set_defaults(act=act)
    return parser


def gets(at: At, behind: str = "") -> Act:
    """Show what stands at the path of one thing, or behind it."""
    return lambda client, options: client.get(at(options) + behind)


def sends(method: str, at: At, behind: str = "") -> Act:
    """Have it done to one thing, whose path `at` gives, without more words."""
    return lambda client, options: client.send(method, at(options) + behind)


def deleted(called: str, answer: Mapping[str, Any]) -> str:
    """How a deletion is told; `called`: what it is called."""
    return f"{called} is deleted; undelete brings it back until {answer['undo_until'][:10]}"


def with_answers(verbs: Any) -> None:
    """The options that every verb has: where the service is, and its answer as it is."""
    for one in verbs.choices.values():
        one.add_argument("--json", action="store_true", help="the API's answer as it is")
        with_service(one)


def key_value(given: str) -> tuple[str, Any]:
    """KEY=VALUE; numbers and truths as they are, all else as text."""
    key, found, value = given.partition("=")
    if not found:
        raise argparse.ArgumentTypeError("say KEY=VALUE, like role=CTO")
    try:
        read = json.loads(value, parse_constant=str, parse_float=_finite)
    except ValueError:
        return key, value
    return key, read if isinstance(read, bool | int | float) else value


def _finite(digits: str) -> float | str:
    """A number as JSON can say it again, else its digits."""
    return number if isfinite(number := float(digits)) else digits


def run_verb(options: argparse.Namespace, told: Callable[[str, Mapping[str, Any]], Iterable[str]]) -> int:
    """Do what the verb says, and tell its answer by lines. 1: it cannot be, with the service's own sentence."""
    try:
        answer = options.act(Client(options), options)
    except BrokenPipeError:  # whoever reads the bytes of a file is gone
        raise
    except (CallFailed, OSError) as fault:
        sys.stderr.write(f"memory-proxy: {fault}\n")
        return 1
    if answer == {}:  # bytes, which stdout has already
        return 0
    if options.json:
        show_json(answer)
    else:
        (show_all if options.verb in _TEXTS else show_rows)(list(told(options.verb, answer)) or [NONE])
        say_more(answer)
    return 0
