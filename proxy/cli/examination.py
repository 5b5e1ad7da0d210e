"""`memory-proxy doctor`, the program: options in, one line for every part out; 1 when something must be mended.

Works with nothing running and beside a running service, whose servers it then asks too. A configuration that cannot be
used is reported fault by fault, and what does not depend on it is still checked. Changes nothing but the model's cache.
"""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from memory.at_terminal import at_terminal, hear_interrupts
from memory.config import ENV_PREFIX, Settings, data_dir_of, fields_of
from memory.config_file import parse_config
from memory.config_text import is_secret
from memory.errors import ConfigInvalid
from proxy.cli import check_cache, check_machine, check_model, check_others, check_start, check_stores, check_upstream
from proxy.cli.become import told_options
from proxy.cli.checks import Check, Finding, Findings, as_json, as_text, failed, findings_of, in_thread
from proxy.cli.serve import settings_of

MODEL_BOUND_S = 120.0
PROBE_BOUND_S = 240.0
SEARCH_BOUND_S = 65.0  # outside.search_s is 60 at most


def main(arguments: list[str]) -> int:
    """Entry point of the process."""
    options = told_options(arguments[0])
    options.config = Path(options.config) if options.config else None
    hear_interrupts()
    try:
        findings = asyncio.run(examine(checks_of(options, os.environ), show=not options.json))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read the output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if options.json:
        sys.stdout.write(as_json(findings) + "\n")
        return 1 if failed(findings) else 0
    counts = {level: sum(finding.level == level for finding in findings) for level in ("FAIL", "warn")}
    told = f"{counts['FAIL']} to be mended (FAIL), {counts['warn']} that could be better (warn)"
    sys.stdout.write(f"\n{len(findings)} looked at: {told}\n")
    sys.stdout.flush()
    return 1 if failed(findings) else 0


async def examine(checks: list[Check], *, show: bool) -> Findings:
    """Run the checks; with `show` each line is written as soon as it is known."""
    findings = []
    async for finding in findings_of(checks):
        findings.append(finding)
        if show:
            sys.stdout.write(as_text(finding) + "\n")
            sys.stdout.flush()
    return findings


def checks_of(options: Namespace, environ: Mapping[str, str]) -> list[Check]:
    """The checks for these options."""
    general = [
        in_thread("python", check_machine.python),
        in_thread("open files", check_machine.open_files),
        in_thread("memory", check_machine.free_memory),
    ]
    try:
        settings = settings_of(options)
    except ConfigInvalid as fault:
        return [in_thread("configuration", partial(_faults, str(fault))), *general]
    root = data_dir_of(settings)
    servers = check_stores.running_settings(settings, root)
    probe = bool(getattr(options, "probe", False))
    checks = [
        in_thread("configuration", partial(configuration, settings, options.config)),
        *general,
        in_thread("clock", partial(check_machine.clock, root)),
        in_thread("data directory", partial(check_machine.data_directory, root, settings)),
        in_thread("embedded cluster", partial(check_start.cluster, root, settings)),
        in_thread("master key", partial(check_start.master, root, settings, environ)),
        in_thread("erasure journal", partial(check_start.erasures, root, settings)),
        in_thread(f"port {settings.listen.port}", partial(check_machine.port, settings, root)),
    ]
    if settings.database.url is None:
        checks.append(in_thread("embedded Postgres", check_stores.embedded_postgres, 30.0))
    if settings.redis.url is None:
        checks.append(in_thread("embedded Valkey", check_stores.embedded_valkey, 30.0))
    return [
        *checks,
        Check("Postgres", partial(check_stores.postgres, servers), 30.0),
        Check("queue server", partial(check_stores.redis, servers), 30.0),
        in_thread("embedding model", partial(check_model.embedding_model, settings, environ), MODEL_BOUND_S),
        in_thread("reranker", partial(check_model.reranker, settings), MODEL_BOUND_S),
        in_thread("tokenizer", partial(check_model.tokenizer, settings)),
        Check("upstream", partial(check_upstream.upstream, servers, probe=probe), PROBE_BOUND_S if probe else 40.0),
        Check("cache with memory", partial(check_cache.cache_with_memory, settings)),
        in_thread("files", partial(check_others.files, root, servers)),
        Check("upstream.metrics_urls", partial(check_others.watched, servers)),
        Check("chat model", partial(check_others.chat_model, servers)),
        Check("web search", partial(check_others.search, servers), SEARCH_BOUND_S),
        Check("trace collector", partial(check_others.collector, servers, environ)),
    ]


def configuration(settings: Settings, path: Path | None) -> Findings:
    """What is lawful in a configuration and yet worth a word."""
    where = str(path) if path else "defaults, environment and command line"
    findings = [Finding("ok", "configuration", f"{where}: every value is valid")]
    if path is not None and path.stat().st_mode & 0o044 and _holds_secret(path):
        mend = f"chmod 600 {path}, or move secrets into the environment ({ENV_PREFIX}UPSTREAM__API_KEY …)"
        findings.append(Finding("warn", "configuration", f"{path} holds a secret and others may read it", mend))
    if settings.listen.open_on_network and settings.auth.mode == "open":
        mend = "whoever reaches the port reads and writes every memory: auth.mode keys, or a loopback address"
        findings.append(Finding("warn", "configuration", f"open to the network on {settings.listen.host}", mend))
    if settings.redis.url is not None and settings.queue.durability == "process":
        mend = "queue.durability: fsync with appendfsync always keeps what was acknowledged"
        findings.append(Finding("warn", "configuration", "queue.durability: process survives no power cut", mend))
    return findings


def _holds_secret(path: Path) -> bool:
    """Whether any secret stands in this file, which alone need not be a whole configuration."""
    given = parse_config(path.read_text(encoding="utf-8-sig"), str(path)).values
    said = (given.get(key) for key, field in fields_of().items() if is_secret(field))
    return any(value is not None and not _address_alone(str(value)) for value in said)


def _address_alone(value: str) -> bool:
    """Whether this is a URL without a password, as that of a database or Redis may be."""
    if "://" not in value:
        return False
    parts = urlsplit(value)
    return parts.password is None and "password" not in parts.query


def _faults(text: str) -> Findings:
    mend = "`memory-proxy init` writes a file with every setting explained"
    return [Finding("FAIL", "configuration", line, mend) for line in text.splitlines()]


if __name__ == "__main__":
    sys.exit(at_terminal(lambda: main(sys.argv[1:])))
