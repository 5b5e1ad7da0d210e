"""`memory-proxy mcp`: options in; the MCP server of this process.

The SDK takes half a second to load and is an extra, so it is loaded when the command runs, and nowhere in the service.
Refuses, with exit code 1 and what to do, where the extra is not installed, and what the options cannot mean.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from proxy.cli.client import KEY_VARIABLE, URL, without_v1

SERVER: Final = "proxy.mcp_server.run"
TEACHES: Final = """\
Over stdio, which a client starts by itself (Claude Desktop, Cursor, VS Code and others take this form):

  {"mcpServers": {"memory": {
      "command": "memory-proxy",
      "args": ["mcp", "--url", "http://127.0.0.1:8080", "--user", "ada", "--key-file", "/home/ada/.memory-key"]}}}

Over streamable HTTP, for clients that connect to an address; each sends its own key as `Authorization: Bearer mp-…`:

  memory-proxy mcp --http 127.0.0.1:8765        then point the client at http://127.0.0.1:8765/mcp

The tools are memory_search, memory_remember, memory_correct, memory_forget, memory_why, task_add, task_update,
task_list, task_order, task_history, task_delete, checkpoint_save, checkpoint_load, checkpoint_list, checkpoint_diff,
checkpoint_branch and checkpoint_delete. A key needs memory:read:own, memory:write, and for memory_forget
memory:erase. It needs the extra: pip install 'vllm-memory-proxy[mcp]'
"""
MISSING: Final = "the MCP server needs an extra that is not installed: pip install 'vllm-memory-proxy[mcp]'"
_KEY: Final = re.compile(r"[!-~]+", re.ASCII)
_KEY_CHARS_MAX: Final = 4096
_PORT_MAX: Final = 65_535


class OptionRefused(Exception):
    """An option that cannot be; the text says why and what to do."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("--url", type=without_v1, default=URL, help="the running proxy (default %(default)s)")
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="FILE",
        help="API key, where the proxy runs with auth.mode keys; or in $" + KEY_VARIABLE,
    )
    parser.add_argument("--user", help="whose memory (X-Memory-User)")
    parser.add_argument("--project", help="project scope (X-Memory-Project)")
    parser.add_argument("--agent", help="agent namespace (X-Memory-Agent)")
    parser.add_argument("--session", help="conversation that the calls are made in (X-Memory-Session)")
    parser.add_argument("--http", type=address, metavar="HOST:PORT", help="streamable HTTP instead of stdio")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="--http: a name that clients reach it by, as in their Host header; may be repeated",
    )


def address(text: str) -> tuple[str, int]:
    """A host and a port. Raises ArgumentTypeError, which names what was expected."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > _PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no HOST:PORT; say it like 127.0.0.1:8765")
    return host, int(port)


def base_url(url: str) -> str:
    """The service's address. Raises OptionRefused."""
    if not url.startswith(("http://", "https://")):
        raise OptionRefused(f"--url must be an http:// or https:// URL, not {url}")
    return url.rstrip("/")


def key_of(path: Path | None, in_environment: str | None) -> str | None:
    """The key, from its file, else the environment. Raises OptionRefused; what is no key is never told."""
    where = path or f"${KEY_VARIABLE}"
    try:
        key = (path.read_text(encoding="utf-8") if path else in_environment or "").strip()
    except (OSError, UnicodeDecodeError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "not text"
        raise OptionRefused(f"cannot read the key in {path}: {why}") from fault
    if path is None and not key:
        return None
    if len(key) > _KEY_CHARS_MAX or _KEY.fullmatch(key) is None:
        raise OptionRefused(f"{where} must hold one key and nothing else (`memory-proxy key create` makes one)")
    return key


def run_mcp(options: argparse.Namespace) -> int:
    """Serve until told to end."""
    if find_spec("mcp") is None:
        sys.stderr.write(f"memory-proxy: {MISSING}\n")
        return 1
    if options.allow_host and options.http is None:
        sys.stderr.write("memory-proxy: --allow-host goes with --http\n")
        return 1
    code: int = importlib.import_module(SERVER).run(options, os.environ)
    return code
