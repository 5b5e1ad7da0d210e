"""`memory-proxy replay --shadow`, the program: options in, a table of a changed configuration over past turns out.

Asks the running service for each of the last answers of a scope: the body as it went, what the served configuration
recalls today of the store of then (`again`, the control: what differs there is not the change's doing), and what the
changed one recalls (`changed`). Beside them `then`, as it was, and `off`, without memory. Exit code 1 when it cannot.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from memory.adapters.tokenizer import open_tokenizer, sayable
from memory.at_terminal import at_terminal, hear_interrupts
from memory.errors import ModelFileInvalid
from proxy.cli.become import told_options
from proxy.cli.client import CallFailed, Client, quoted
from proxy.cli.progress import Progress
from proxy.cli.shadow import BLOCK_CHARS, BLOCK_TOKENS, Bare, Block, PrefixCache, Series, Units, bare_of

_PAGE: Final = 1000
# Gone for good, or for now beyond what this run waits for: the turn is left out and counted.
_LEFT_OUT: Final = {404: "gone", 410: "gone", 503: "failed", 504: "failed"}


@dataclass(frozen=True, slots=True)
class Counted:
    """How prompts are cut: into what, and how many make a block."""

    units: Units
    block: int
    words: str


def main(arguments: list[str]) -> int:
    """Entry point of the process."""
    options = told_options(arguments[0])
    hear_interrupts()
    try:
        report = compared(Client(options), options, _counted(options))
    except KeyboardInterrupt:
        return 130
    except (CallFailed, OSError, ModelFileInvalid) as fault:
        sys.stderr.write(f"memory-proxy: {fault}\n")
        return 1
    try:
        sys.stdout.write(json.dumps(report, indent=2) + "\n" if options.json else as_text(report))
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _counted(options: Namespace) -> Counted:
    """Raises ModelFileInvalid."""
    if options.tokenizer is None:
        return Counted(tuple, BLOCK_CHARS, f"characters, {BLOCK_CHARS} to a block (about {BLOCK_TOKENS} tokens)")
    tokenizer = open_tokenizer(Path(options.tokenizer))

    def ids(text: str) -> list[int]:
        return list(tokenizer.encode(sayable(text), add_special_tokens=False).ids)

    return Counted(ids, BLOCK_TOKENS, f"tokens of {options.tokenizer}, {BLOCK_TOKENS} to a block")


def compared(client: Client, options: Namespace, counted: Counted) -> dict[str, Any]:
    """Walk through the last answers, oldest first. Raises CallFailed."""
    found = _retrievals(client, options.last)
    series = {name: Series(PrefixCache(counted.units, counted.block)) for name in ("off", "then", "again", "changed")}
    left_out = {"gone": 0, "failed": 0}
    turns, progress = 0, Progress()
    try:
        for number, one in enumerate(found, 1):
            try:
                _turn(client, one, options.config, series)
                turns += 1
            except CallFailed as fault:
                if fault.status not in _LEFT_OUT:
                    raise
                left_out[_LEFT_OUT[fault.status]] += 1
            progress.say(f"{number} of {len(found)}")
    finally:
        progress.clear()
    return {
        "turns": turns,
        "left_out": left_out,
        "config": options.config,
        "cache_counted_in": counted.words,
        "series": {name: one.figures() for name, one in series.items()},
    }


def _retrievals(client: Client, most: int) -> list[dict[str, Any]]:
    """The last so many of the scope, oldest first."""
    return list(_listed(client, most))[::-1]


def _listed(client: Client, most: int) -> Iterator[dict[str, Any]]:
    cursor, left = None, most
    while left > 0:
        page = client.get("/memory/v1/retrievals", {"limit": min(left, _PAGE), "cursor": cursor})
        turns = [one for one in page["data"] if one["status"] != "tool"]  # a tool's call had no prompt
        yield from turns
        left -= len(turns)
        cursor = page["next_cursor"]
        if cursor is None:
            return


def _turn(client: Client, one: Mapping[str, Any], config: Mapping[str, int], series: Mapping[str, Series]) -> None:
    """One answer through every series; asked first, so that a turn that fails is in none."""
    path = f"/memory/v1/replay/{quoted(one['id'])}"
    was = client.get(path)
    bare = bare_of(one["session"] or one["id"], was["request"], was["placed"])
    would = {
        name: _fresh(client, path, bare, given, series[name]) for name, given in (("again", {}), ("changed", config))
    }
    placed: dict[int, str] = {}
    for block in was["placed"]:
        placed[block["position"]] = placed.get(block["position"], "") + block["text"]
    fresh = [_block(block) for block in was["placed"] if not block["kept"]]
    then = [memory_id for block in fresh for memory_id in block.memory_ids]
    series["off"].take(bare.prompt({}), (), then)
    series["then"].take(bare.prompt(placed), fresh, then)
    for name, block in would.items():
        carried = {at: held.text for at, held in series[name].ledger.carried(bare).items()}
        if block is not None and block.position not in carried:  # else: another attempt, which is given what it was
            series[name].ledger.place(bare, block)
            carried[block.position] = block.text
        series[name].take(bare.prompt(carried), [block] if block else [], then)


def _fresh(client: Client, path: str, bare: Bare, config: Mapping[str, int], series: Series) -> Block | None:
    """What would be newly placed where the series' own ledger is in the prompt."""
    carried = [memory_id for held in series.ledger.carried(bare).values() for memory_id in held.memory_ids]
    said = client.send("POST", path, {"config": config, "in_prompt": list(dict.fromkeys(carried))})
    return next((_block(block) for block in said["placed"] if not block["kept"]), None)


def _block(said: Mapping[str, Any]) -> Block:
    return Block(said["position"], said["text"], said["tokens"], tuple(said["memory_ids"]))


def as_text(report: Mapping[str, Any]) -> str:
    """The report as a table."""
    columns = ("placed", "tokens", "of_then", "jaccard", "cache_ratio")
    heads = ("memories", "tokens", "of then", "Jaccard", "cached")
    lines = [f"{'':<9}" + "".join(f"{head:>10}" for head in heads)]
    for name, one in report["series"].items():
        lines.append(f"{name:<9}" + "".join(f"{_figure(one[column]):>10}" for column in columns))
    gone = report["left_out"]
    config = ", ".join(f"{name}={value}" for name, value in report["config"].items())
    lines += [
        "",
        f"{report['turns']} answers; left out: {gone['gone']} that are gone or were not kept, {gone['failed']} failed",
        "off: without memory  then: as it went  again: the served configuration, recalled anew (the control)",
        f"changed: {config}",
        f"memories, tokens: newly placed  cached: of the prompts' {report['cache_counted_in']}, simulated",
    ]
    return "\n".join(lines) + "\n"


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.3f}"


if __name__ == "__main__":
    sys.exit(at_terminal(lambda: main(sys.argv[1:])))
