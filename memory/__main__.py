"""`python -m memory COMMAND`: the remembering side, without HTTP; what `memory-proxy` starts for its commands.

Reads the resolved settings that the supervisor left (MEMORY_PROXY_SETTINGS). Exit codes: 0 done; 75 (EX_TEMPFAIL) try
again, a store is not there yet or another consolidates; 2 final, the reason is on stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from memory.at_terminal import at_terminal, hear_interrupts, signals_held
from memory.config import Settings, settings_from_environ
from memory.erasure.model import KINDS
from memory.errors import (
    REFUSED,
    TRY_AGAIN,
    ConfigInvalid,
    EmbedderUnavailable,
    LeaseLost,
    ModelFileInvalid,
    QueueUnavailable,
    StartFailed,
    StoreUnavailable,
)
from memory.telemetry import configure_logging, event, last_words

log = logging.getLogger("memory_proxy.memory")
COMMANDS: Final[Mapping[str, str]] = {
    "worker": "commands.worker_command",
    "migrate": "migrate_command.command",
    "consolidate": "commands.consolidate_command",
    "prepare-model": "prepare_command.command",
    "reembed": "reembed_command.command",
    "key": "key_command.command",
    "audit": "audit_command.command",
    "encryption": "encryption_command.command",
    "redact": "redact_command.command",
    "forget": "forget_command.command",
}
"""Where each command is, of this package: settings and options in, an exit code out."""
OF_THE_SERVICE: Final = frozenset({"worker", "migrate", "prepare-model"})
"""Those that the supervisor starts, and that may make what is not there yet; the others work beside them."""
AT_START: Final = "start"
"""The mode of a migration that the supervisor starts: its log is the service's."""
RESUMED: Final = frozenset({"consolidate", "reembed", "encryption", "redact"})
"""Those that take long, and keep what they have done wherever they end."""


def main() -> int:
    """Entry point of the process."""
    given = _parser().parse_args()
    return at_terminal(lambda: _ran(given))


def _ran(given: argparse.Namespace) -> int:
    hear_interrupts()
    of_the_service = given.what in OF_THE_SERVICE and not (given.what == "migrate" and given.mode != AT_START)
    form = "text"  # who gives a command beside the service reads its answer
    try:
        settings = settings_from_environ(os.environ)
        form = settings.log.format if of_the_service else form
        configure_logging(settings.log.level, form)
        if given.what not in OF_THE_SERVICE:
            _has_its_key(settings)
        return _command(given.what)(settings, given)
    except (StoreUnavailable, QueueUnavailable, EmbedderUnavailable, LeaseLost) as fault:
        if of_the_service:
            event(log, "not_there_yet", logging.WARNING, what=given.what, fault=str(fault))
        else:
            last_words(given.what, fault, form)
        if given.what in RESUMED:
            sys.stderr.write("what was done is kept; the same command goes on there\n")
        return TRY_AGAIN
    except (ConfigInvalid, ModelFileInvalid, StartFailed) as fault:
        last_words(given.what, fault, form)
        return REFUSED


def _has_its_key(settings: Settings) -> None:
    """Loaded by itself: what a migration imports is counted."""
    asyncio.run(importlib.import_module("memory.key_wiring").opens_beside(settings))


def _command(what: str) -> Callable[[Settings, argparse.Namespace], int]:
    """Loaded by itself: what a worker imports takes .8 s, for which who makes a key should not wait."""
    module, _, name = COMMANDS[what].partition(".")
    with signals_held():
        run: Callable[[Settings, argparse.Namespace], int] = getattr(importlib.import_module(f"memory.{module}"), name)
    return run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m memory", description=__doc__)
    parser.add_argument("what", choices=tuple(COMMANDS))
    parser.add_argument("asked", nargs="?", help="of key: what the command line asks for, as JSON")
    parser.add_argument(
        "--mode",
        default="now",
        help="of consolidate: now, dry-run, last; of migrate: check, start; of the others: see their options",
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.add_argument("--to", help="of reembed: the model")
    parser.add_argument("--directory", type=Path, help="of reembed: where its files lie")
    parser.add_argument("--rest", type=float, default=1.0, help="of reembed: seconds of rest for each of work")
    for name in ("tenant", "action", "actor", "id", "head"):
        parser.add_argument(f"--{name}", help="of audit" if name != "tenant" else "of audit and forget")
    parser.add_argument("--limit", type=int, default=50, help="of audit list: rows of each tenant")
    parser.add_argument("--again", action="store_true", help="of redact: look also at what these rules have cleaned")
    parser.add_argument("--token", help="of redact: what --mode reveal shows the value of")
    parser.add_argument("--older-days", type=float, default=1.0, help="of encryption: rotate keys older than this")
    parser.add_argument("--kind", choices=KINDS, help="of forget: of what kind")
    parser.add_argument("--value", help="of forget: which")
    for name in ("user", "project", "agent"):
        parser.add_argument(f"--as-{name}", default="default", help="of forget: in whose scope")
    return parser


if __name__ == "__main__":
    sys.exit(main())
