"""`forget`: whose or what memory is to go in, a signed receipt on stdout out.

By the API of the running service; with --scrub beside it, as the service's own processes run: what was forgotten is
then looked for in every file of the data directory. `--verify` holds a receipt against the installation's key.
Exit codes: 0 gone, or genuine; 1 it cannot be, is not complete, or is not genuine; 75 a store does not answer: what was
done is kept, the service goes on with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Final
from uuid import UUID

from memory.config import data_dir_of
from memory.erasure.model import KINDS
from memory.erasure.receipt import is_genuine, public_key
from memory.errors import ConfigInvalid, StartFailed
from memory.master import ENVIRONMENT, RECEIPTS, is_there, master_key
from proxy.cli.beside import run_beside
from proxy.cli.client import URL, CallFailed, Client
from proxy.cli.forgetting import Planned, forget_by_api, plan_words
from proxy.cli.heeded import refuse_unheeded
from proxy.cli.progress import Progress
from proxy.cli.serve import settings_of
from proxy.cli.shown import show_json

TEACHES = """\
A dry run says what would go; --yes does it. At the logical level (the default) it is gone from every answer, export and
dump, and what was sealed can never be opened. --scrub also takes it out of the files of the embedded servers: it
rewrites Valkey's log and every table, drops the write-ahead log behind them, and looks through every file. With an
external database that is its administrator's to do; the command says what.
"""
_OF_FORGETTING: Final = ("dry_run", "yes", "scrub", "as_user", "as_project", "as_agent", "tenant", "url", "key")


def run_forget(options: argparse.Namespace) -> int:
    """Forget, rehearse it, or verify a receipt."""
    try:
        if options.verify is not None:
            refuse_unheeded(options, "what is to be forgotten, and --verify without it", *_OF_FORGETTING)
            return _verify(options)
        refuse_unheeded(options, "--verify", "public_key")
        given = [(kind, value) for kind in KINDS if (value := getattr(options, f"forget_{kind}")) is not None]
        if len(given) != 1:
            raise CallFailed("name exactly one of --user, --project, --session, --memory, --source and --query")
        kind, value = given[0]
        if options.tenant is not None and not options.scrub:
            raise CallFailed("--tenant goes with --scrub; without it the tenant is that of --key")
        if options.scrub:
            refuse_unheeded(options, "forget without --scrub, which is about the service on --data-dir", "url", "key")
            return _scrub(options, kind, value)
        refuse_unheeded(options, "--scrub or --verify; without them --url says which service", "config", "data_dir")
        return _by_api(options, kind, value)
    except (CallFailed, OSError, ValueError, ConfigInvalid, StartFailed) as fault:
        sys.stderr.write(f"memory-proxy: {fault}\n")
        return 1


def _by_api(options: argparse.Namespace, kind: str, value: str) -> int:
    progress = Progress()
    try:
        answer, is_receipt = forget_by_api(
            Client(_as_caller(options)),
            kind,
            value,
            agreed=lambda planned: not options.dry_run and _agreed(options, planned),
            goes_on=progress.say,
        )
    except KeyboardInterrupt:
        progress.end()
        raise
    finally:
        progress.clear()
    show_json(answer)
    if is_receipt and not answer["counts"]:
        sys.stderr.write("memory-proxy: nothing of it was there, or not any more: is the name right?\n")
    return 0 if not is_receipt or answer["complete"] else 1


def _agreed(options: argparse.Namespace, planned: Planned) -> bool:
    """Whether it is to be done: --yes, or somebody who types it."""
    if options.yes:
        return True
    if not sys.stdin.isatty():
        sys.stderr.write("memory-proxy: this is what would go; --yes does it\n")
        return False
    sys.stderr.write(f"This goes for good: {plan_words(planned)}. Type yes: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip() == "yes"


def _scrub(options: argparse.Namespace, kind: str, value: str) -> int:
    if options.dry_run:
        raise CallFailed("--scrub cannot be rehearsed: --dry-run without it says what would go")
    if not options.yes:
        raise CallFailed("--scrub rewrites tables, during which their scopes wait; say --yes, or --dry-run without it")
    if kind == "query":
        raise CallFailed("--scrub takes no --query: rehearse that with --dry-run, then scrub the memories it names")
    if kind == "memory" and not _is_id(value):
        raise CallFailed(f"{value!r} is no id of a memory; `memory-proxy memories` lists them")
    whose = {name: getattr(options, name.replace("-", "_")) for name in ("tenant", "as-user", "as-project", "as-agent")}
    scope = [f"--{name}={_named(name, given)}" for name, given in whose.items()]
    return run_beside(options, ["forget", f"--kind={kind}", f"--value={_named(kind, value)}", *scope])


def _named(option: str, value: str | None) -> str:
    """What was named. An empty one, as a variable that is not set leaves it, is not the default: that is another's."""
    if value == "":
        raise CallFailed(f"--{option.removesuffix('_id')} is empty")
    return "default" if value is None else value


def _is_id(value: str) -> bool:
    try:
        UUID(value)
    except ValueError:
        return False
    return True


def _verify(options: argparse.Namespace) -> int:
    try:
        receipt = json.loads(Path(options.verify).read_text(encoding="utf-8"))
    except ValueError as fault:
        raise CallFailed(f"{options.verify} is no receipt: that is one JSON object, as `forget` wrote it") from fault
    keys = [options.public_key] if options.public_key else _own_keys(options)
    if not isinstance(receipt, dict) or not any(is_genuine(receipt, key) for key in keys):
        sys.stdout.write(f"NOT genuine: not signed by {' or '.join(keys)}, or changed since\n")
        return 1
    said = "complete" if receipt["complete"] else f"NOT complete: {receipt['probe']['traces']} traces"
    sys.stdout.write(f"genuine: {receipt['kind']} {receipt['level']} {receipt['finished_at']} {said}\n")
    return 0 if receipt["complete"] else 1


def _own_keys(options: argparse.Namespace) -> list[str]:
    """The installation's public key, and that of its master key before, where that is named still."""
    settings = settings_of(options)
    root, previous = data_dir_of(settings), settings.encryption.previous_master_key_file
    path = settings.encryption.master_key_file or root / "master.key"
    if not path.exists() and ENVIRONMENT not in os.environ:
        raise CallFailed(f"there is no {path}: say --data-dir, or --public-key as the installation shows it")
    masters = [master_key(path, None, os.environ)]
    masters += [master_key(previous, None, {})] if previous is not None and is_there(previous) else []
    return [public_key(asyncio.run(one.derived(RECEIPTS))) for one in masters]


def _as_caller(options: argparse.Namespace) -> argparse.Namespace:
    names = {"user": options.as_user, "project": options.as_project, "agent": options.as_agent}
    return argparse.Namespace(url=URL if options.url is None else options.url, key=options.key, **names)
