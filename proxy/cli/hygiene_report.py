"""`memory-proxy hygiene`, the program: options in, a table of shares with examples by id out; 1 when it cannot look.

Opens the database as the doctor does: of the service that runs on the data directory, or of database.url. Reads in
pages, each while the one before it is judged, as whoever lets a service go first; says how far it is when that takes
over two seconds, and writes no memory's text without --show.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from memory.adapters.postgres.database import Bounds, Database
from memory.adapters.postgres.hygiene_store import HygieneStore
from memory.adapters.secret_rules import secret_detectors
from memory.at_terminal import at_terminal, hear_interrupts
from memory.config import Settings, data_dir_of, load_settings
from memory.errors import ConfigInvalid, MemoryProxyFault, StoreUnavailable
from memory.hygiene import Found, Inspection
from memory.step_back import step_back
from memory.write.redact import Redactor
from policies.hygiene import RATES, Rate, Tally
from proxy.cli import check_stores, why
from proxy.cli.become import told_options
from proxy.cli.chat_words import printable
from proxy.cli.progress import Progress

PROGRESS_AFTER_S: Final = 2.0
_SHOWN_CHARS: Final = 100
_WIDTH: Final = 14


def main(arguments: list[str]) -> int:
    """Entry point of the process."""
    options = told_options(arguments[0])
    hear_interrupts()
    step_back()
    try:
        inspection = asyncio.run(inspected(options, dsn_of(options, os.environ)))
    except KeyboardInterrupt:
        return 130
    except (ConfigInvalid, MemoryProxyFault) as fault:
        sys.stderr.write(f"memory-proxy: {fault}\n")
        return 1
    redactor = Redactor(secret_detectors())
    told = as_json(inspection, redactor, show=options.show)
    try:
        sys.stdout.write(
            json.dumps(told, indent=2, ensure_ascii=False) + "\n" if options.json else printable(as_text(told))
        )
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def dsn_of(options: Namespace, environ: Mapping[str, str]) -> str:
    """Where the service keeps its memory. Raises ConfigInvalid, StoreUnavailable with how to go on."""
    config = Path(options.config) if options.config else None
    settings: Settings = load_settings(config, {"data.dir": options.data_dir}, environ)
    root = data_dir_of(settings)
    url = check_stores.running_settings(settings, root).database.url
    if url is None:
        raise StoreUnavailable(
            f"no service runs on {root}, so its database is not up: start `memory-proxy serve`, "
            "or name the running one's --data-dir or --config"
        )
    return url.get_secret_value()


async def inspected(options: Namespace, dsn: str) -> Inspection:
    """Walk through what is asked for. Raises StoreUnavailable."""
    unused_after = timedelta(days=options.unused_days)
    inspection = Inspection(
        Redactor(secret_detectors()), now=datetime.now(UTC), unused_after=unused_after, examples=options.examples
    )
    database = await Database.open(dsn, Bounds(connections_max=2, statement_timeout_ms=60_000))
    began, looked, progress = time.monotonic(), 0, Progress()
    pages = HygieneStore(database).pages(user=options.user, project=options.project)
    try:
        page = await anext(pages, None)
        while page is not None and (options.limit is None or looked < options.limit):
            looked += len(page)
            _, page = await asyncio.gather(asyncio.to_thread(inspection.look, page), anext(pages, None))
            if time.monotonic() - began > PROGRESS_AFTER_S:
                progress.say(f"looked at {looked} memories")
    finally:
        progress.clear()
        await database.close()
    return inspection


def as_json(inspection: Inspection, redactor: Redactor, *, show: bool) -> dict[str, Any]:
    """The report as one object; `content` of examples only with `show`, and never with a secret in it."""
    tally = inspection.tally
    rates = [_rate(rate, tally, inspection.examples[rate], redactor, show=show) for rate in RATES]
    supported = tally.facts - tally.found["unsupported"]
    valid = {"count": supported, "of": tally.facts, "share": round(1 - tally.share("unsupported"), 6)}
    return {
        "memories": tally.memories,
        "facts": tally.facts,
        "junk_or_duplicate": round(tally.sum_of(("junk", "duplicate")), 6),
        "facts_with_a_valid_span": valid,
        "rates": rates,
    }


def _rate(rate: Rate, tally: Tally, examples: list[Found], redactor: Redactor, *, show: bool) -> dict[str, Any]:
    shown = []
    for found in examples:
        one: dict[str, Any] = {"id": str(found.memory_id), "kind": found.kept.kind}
        if show:
            one["content"] = why.short(redactor.redact(found.kept.content).text, _SHOWN_CHARS)
        shown.append(one)
    counts = {"count": tally.found[rate], "of": tally.of(rate), "share": round(tally.share(rate), 6)}
    return {"rate": rate, **counts, "examples": shown}


def as_text(told: Mapping[str, Any]) -> str:
    """The report as a table, the examples below it."""
    lines = [f"{'':<{_WIDTH}}{'count':>8}{'of':>9}{'share':>9}"]
    lines += [f"{one['rate']:<{_WIDTH}}{one['count']:>8}{one['of']:>9}{one['share']:>9.2%}" for one in told["rates"]]
    spans = told["facts_with_a_valid_span"]
    valid = f"{spans['share']:.2%}" if told["facts"] else "none"
    lines += [
        "",
        f"junk + duplicate {told['junk_or_duplicate']:.2%}; facts with a valid span {valid}; "
        f"{told['memories']} memories that recall may show, {told['facts']} facts",
    ]
    for rate in told["rates"]:
        for one in rate["examples"]:
            said = f"  {one['content']}" if "content" in one else ""
            lines.append(f"{rate['rate']:<{_WIDTH}}{one['id']}  {one['kind']}{said}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(at_terminal(lambda: main(sys.argv[1:])))
