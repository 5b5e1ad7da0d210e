"""Running the MCP server: the options of `memory-proxy mcp` in; a server on stdio or HTTP until it is told to end.

Over HTTP the headers Host and Origin are held against the names it is known by, on every address (the SDK alone does it
on loopback only), so that no web page reaches it by a name of its own. Refuses, with exit code 1, to lend a key or an
open service to a network.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import socket
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import aiohttp
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from memory.config import is_loopback
from proxy.cli import mcp as command
from proxy.cli.client import KEY_VARIABLE
from proxy.mcp_server.api_calls import CALL_S, ApiCalls, Identity
from proxy.mcp_server.heard import Heard, Told
from proxy.mcp_server.server import build

PATH: Final = "/mcp"
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


class Refused(Exception):
    """It is not started so; the text says why and what to do."""


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Serve; the exit code."""
    try:
        asyncio.run(_serve(options, environment.get(KEY_VARIABLE)))
    except (Refused, command.OptionRefused) as refused:
        sys.stderr.write(f"memory-proxy: {refused}\n")
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


async def _serve(options: argparse.Namespace, key_in_environment: str | None) -> None:
    base = command.base_url(options.url)
    key = command.key_of(options.key_file, key_in_environment)
    names = {name: getattr(options, name) for name in ("user", "project", "agent", "session")}
    how = "start `memory-proxy mcp` with --key-file FILE or MEMORY_PROXY_KEY"
    if options.http is not None:
        how = "send a key as `Authorization: Bearer mp-…`"
    # Without cookies: what stands before the service may give one to a caller, and the next caller is somebody else.
    jar, bound = aiohttp.DummyCookieJar(), aiohttp.ClientTimeout(total=CALL_S)
    async with aiohttp.ClientSession(cookie_jar=jar, timeout=bound) as http:
        calls = ApiCalls(http, base, Identity.of(key, names), how)
        server = build(calls, _version())
        if options.http is None:
            await _over_stdio(server)
        else:
            await _over_http(server, calls, options, lends=key is not None)


async def _over_stdio(server: Server[Any]) -> None:
    """Until the client closes our input, or a signal."""
    for ends in (signal.SIGINT, signal.SIGTERM):
        # At once: nothing is held here, and the thread that reads our input would be waited for until it is closed.
        signal.signal(ends, signal.SIG_DFL)
    async with stdio_server() as (read, write):
        told = Told(write)
        await server.run(Heard(read, told), told, server.create_initialization_options())


async def _over_http(server: Server[Any], calls: ApiCalls, options: argparse.Namespace, *, lends: bool) -> None:
    """Until SIGTERM or Ctrl-C. Raises Refused."""
    host, port = options.http
    if not is_loopback(host):
        await _refuse_lending(calls, host, lends=lends)
        _refuse_nameless(host, options.allow_host)
    with _listening(host, port) as listener:
        port = listener.getsockname()[1]
        app = server.streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            stateless_http=True,
            transport_security=_security(host, port, options.allow_host),
            host=host,
        )
        served = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, server_header=False))
        shown = f"[{host}]" if ":" in host else host
        # Before uvicorn has handlers of its own, and when it raises the signal again behind its end, which was well.
        signal.signal(signal.SIGTERM, lambda *_: setattr(served, "should_exit", True))
        print(f"ready on http://{shown}:{port}{PATH}", flush=True)  # noqa: T201  what a script waits for
        await served.serve(sockets=[listener])


async def _refuse_lending(calls: ApiCalls, host: str, *, lends: bool) -> None:
    """Raise Refused where whoever reaches the address would act with what is not theirs."""
    if lends:
        raise Refused(
            f"a key here would be lent to whoever reaches {host}: leave --key-file and MEMORY_PROXY_KEY out, and each "
            "client sends its own key as `Authorization: Bearer mp-…`"
        )
    try:
        status = await calls.status_without_key()
    except (aiohttp.ClientError, OSError, TimeoutError) as fault:
        raise Refused(f"the service does not answer ({fault}), so it is not known whether it asks for keys") from fault
    if status == 200:
        raise Refused(
            f"the service asks for no keys (auth.mode open): whoever reaches {host} would read and write its memory. "
            "Listen on 127.0.0.1, or let the service ask for keys (docs/keys.md)"
        )
    if status != 401:
        raise Refused(
            f"the service answers {status}, so it is not known whether it asks for keys: is --url a memory-proxy, and "
            "is it ready (/memory/ready)?"
        )


def _refuse_nameless(host: str, also: list[str]) -> None:
    """Raise Refused where no client could name this address in its Host header."""
    if host in ("0.0.0.0", "::") and not also:  # noqa: S104  compared, not listened on
        raise Refused(f"{host} is every address and no name: say by which clients reach it, --allow-host NAME")


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as fault:
        raise Refused(f"cannot listen on {host}:{port}: {fault.strerror or fault}") from fault


def _security(host: str, port: int, also: list[str]) -> TransportSecuritySettings:
    """By which names it may be spoken to, and from pages of which."""
    named = [f"[{host}]" if ":" in host else host]
    names = [*(_LOOPBACK if is_loopback(host) else named), *also]
    hosts = [one for name in names for one in (name, f"{name}:{port}")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{one}" for one in hosts for scheme in ("http", "https")],
    )


def _version() -> str:
    try:
        return version("vllm-memory-proxy")
    except PackageNotFoundError:
        return ""
