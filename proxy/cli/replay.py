"""`replay`: an answer's id in, the body that went upstream out; or what it would have been, or a shadow run.

By the API of the running service. The shadow run is a module of its own (`shadow_report.py`), since it may load a
tokenizer. Exit codes: 0 rebuilt byte for byte, or a what-if was answered; 1 it cannot be, or the bytes differ.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from proxy.cli.become import become
from proxy.cli.client import CallFailed, Client, quoted
from proxy.cli.heeded import refuse_unheeded
from proxy.cli.shown import show, show_json, show_raw

TEACHES: Final = """\
  memory-proxy replay ID                             the body as it went, on stdout; whether it is, on stderr
  memory-proxy replay ID | sha256sum                 its bytes: compare with sha256_sent
  memory-proxy replay ID --as-of 2026-11-01T00:00:00Z      what recall would have given with the store of then
  memory-proxy replay ID --without MEMORY            without a memory
  memory-proxy replay ID --config-set recall.episodes_max=5
  memory-proxy replay --shadow --config-set recall.episodes_max=5 --last 200

--shadow recalls the last answers of a scope anew: which memories are placed, how many tokens, and what the prefix cache
makes of it.

A what-if asks the store as it stood when the request came, unless --as-of says another time, and writes nothing.
Settings: recall.budget_tokens_max, recall.candidates_max, recall.episodes_max, recall.facts_max,
recall.procedures_max, recall.tasks_max, session.replay_turns. With keys it takes the capability trace:read.
"""
LAST: Final = 200


def run_replay(options: argparse.Namespace) -> int:
    """Replay one answer, or run over the last ones."""
    try:
        if options.shadow == (options.retrieval is not None):
            raise CallFailed("give the id of X-Memory-Retrieval, or --shadow")
        options.config = settings_in(options.config_set or ())
        if options.shadow:
            if options.as_of is not None or options.without:
                raise CallFailed("--shadow compares configurations: --as-of and --without are for one answer")
            if not options.config:
                raise CallFailed("--shadow wants a changed setting: --config-set recall.episodes_max=5")
            options.last = LAST if options.last is None else options.last
            become("proxy.cli.shadow_report", options)
        refuse_unheeded(options, "--shadow", "last", "tokenizer")
        return _one(options)
    except (CallFailed, OSError) as fault:
        sys.stderr.write(f"memory-proxy: {fault}\n")
        return 1


def settings_in(given: Sequence[str]) -> dict[str, int]:
    """NAME=N, each. Raises CallFailed."""
    config: dict[str, int] = {}
    for one in given:
        name, equals, value = one.partition("=")
        try:
            config[name.strip()] = int(value)
        except ValueError:
            raise CallFailed(f"--config-set {one!r}: expected NAME=N, like recall.episodes_max=5") from None
        if not equals or not name.strip():
            raise CallFailed(f"--config-set {one!r}: expected NAME=N, like recall.episodes_max=5")
    return config


def _one(options: argparse.Namespace) -> int:
    client, path = Client(options), f"/memory/v1/replay/{quoted(options.retrieval)}"
    what_if = options.as_of is not None or bool(options.without or options.config)
    if what_if:
        body = {"as_of": options.as_of, "without": options.without or [], "config": options.config}
        answer = client.send("POST", path, body)
    else:
        answer = client.get(path)
    if options.json:
        show_json(answer)
    elif what_if:
        show(*_difference(answer))
    else:
        show_raw(answer["request"].encode())
        sys.stdout.flush()
        same = "byte for byte what went upstream" if answer["identical"] else f"NOT what went: {answer['missing']}"
        sys.stderr.write(f"memory-proxy: {same}, sha256 {answer['sha256_sent']}\n")
    return 0 if what_if or answer["identical"] else 1


def _difference(answer: Mapping[str, Any]) -> list[str]:
    """What would have been placed against what was."""
    diff = answer["diff"]
    lines = [f"{name:8} {len(diff[name]):3}  {' '.join(diff[name])}".rstrip() for name in ("kept", "added", "removed")]
    about = "" if answer["tokens_exact"] else "about "
    lines.append(f"{about}{answer['tokens']} tokens of memory in the prompt")
    lines += [f"note: {note}" for note in answer["notes"]]
    return [*lines, "", diff["text"] or "the block would be the same"]
