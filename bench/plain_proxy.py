"""The fair baseline: any HTTP request in, the same request to --upstream, its answer out, byte for byte.

A plain aiohttp + uvloop pass-through with the limits of our own proxy (no body cap, nothing
decompressed, header lines up to 64 KiB, a client that leaves cancels) and one pooled client session.
It parses no body, remembers nothing and refuses nothing; WebSockets are left out, since no benchmark uses them.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Iterable

import aiohttp
import uvloop
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

HEADER_BYTES_MAX = 65_536
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade".split()
)
UNSET_BY_CLIENT = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
SESSION: web.AppKey[aiohttp.ClientSession] = web.AppKey("session", aiohttp.ClientSession)
UPSTREAM: web.AppKey[str] = web.AppKey("upstream", str)


def _end_to_end(raw_headers: Iterable[tuple[bytes, bytes]], *dropped: bytes) -> CIMultiDict[str]:
    kept: CIMultiDict[str] = CIMultiDict()
    for name, value in raw_headers:
        lowered = name.lower()
        if lowered not in HOP_BY_HOP and lowered not in dropped:
            kept.add(name.decode("latin-1"), value.decode("utf-8", "surrogateescape"))
    return kept


async def _forward(request: web.Request) -> web.StreamResponse:
    headers = _end_to_end(request.raw_headers, b"host")
    url = URL(request.app[UPSTREAM] + request.raw_path, encoded=True)
    body = request.content.iter_any() if request.body_exists else None
    answer = await request.app[SESSION].request(request.method, url, headers=headers, data=body, allow_redirects=False)
    async with answer:
        response = web.StreamResponse(status=answer.status, reason=answer.reason)
        response.headers.extend(_end_to_end(answer.raw_headers))
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
    return response


async def _serve(upstream: str, host: str, port: int) -> None:
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        skip_auto_headers=UNSET_BY_CLIENT,
        cookie_jar=aiohttp.DummyCookieJar(),
        max_line_size=HEADER_BYTES_MAX,
        max_field_size=HEADER_BYTES_MAX,
    )
    app = web.Application(client_max_size=0)
    app[SESSION], app[UPSTREAM] = session, upstream.rstrip("/")
    app.router.add_route("*", "/{path:.*}", _forward)
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=True,
        auto_decompress=False,
        max_line_size=HEADER_BYTES_MAX,
        max_field_size=HEADER_BYTES_MAX,
        shutdown_timeout=0.5,
    )
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=1024).start()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    bound_host, bound_port = runner.addresses[0][:2]
    print(f"ready on http://{bound_host}:{bound_port}", flush=True)
    await stop.wait()
    await runner.cleanup()
    await session.close()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.plain_proxy", description=__doc__)
    parser.add_argument("--upstream", required=True, help="base URL, for instance http://127.0.0.1:8000")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9000, help="0 takes a free one; the ready line names it")
    arguments = parser.parse_args(argv)
    uvloop.run(_serve(arguments.upstream, arguments.host, arguments.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
