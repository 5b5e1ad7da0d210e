"""The one listening socket that all proxy workers inherit: (host, port) -> an open socket.

It is opened before anything else starts, so no connection is refused while workers come and go. Refuses, by name, an
address that is taken, forbidden or not this machine's, with StartFailed.
"""

from __future__ import annotations

import errno
import socket
from typing import Any

from memory.errors import StartFailed

BACKLOG = 1024
# Of one client, what the kernel takes ahead of its network. Without a bound it takes some MiB of an answer that nobody
# reads, and the copy of it that is to be captured grows with it: 64 slow clients of long answers held 210 MiB.
UNSENT_BYTES_MAX = 131_072

REMEDIES = {
    errno.EADDRINUSE: "another process listens there: stop it, or choose another --port",
    errno.EACCES: "ports below 1024 need a privilege: choose another --port",
    errno.EADDRNOTAVAIL: "it is no address of this machine: choose another --host",
}


def open_listener(host: str, port: int) -> socket.socket:
    """Listen on the first address of the host, IPv4 before IPv6; `::` takes both. Raises StartFailed."""
    try:
        family, kind, protocol, _, address = chosen(host, port)
    except socket.gaierror as error:
        raise StartFailed(f"cannot listen on {host}: {error.strerror}; choose another --host") from error
    except UnicodeError as error:
        raise StartFailed(f"cannot listen on {host}: it is no name of a host; choose another --host") from error
    try:
        listener = socket.socket(family, kind, protocol)
    except OSError as error:  # a kernel without IPv6
        raise StartFailed(f"cannot listen on port {port} of {host}: {error.strerror}; choose another --host") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # Linux and macOS; accepted sockets have it from the listener
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        remedy = REMEDIES.get(error.errno or 0, error.strerror or "unknown reason")
        raise StartFailed(f"cannot listen on port {port} of {host}: {remedy}") from error
    return listener


def chosen(host: str, port: int) -> tuple[int, int, int, str, Any]:
    """Which address of a host is listened on, as getaddrinfo gives it. Raises OSError, UnicodeError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return min(found, key=lambda item: item[0] != socket.AF_INET)


def local_address(listener: socket.socket) -> tuple[str, int]:
    """Where a client on this machine reaches it: the bound address, loopback for a wildcard."""
    host, port = listener.getsockname()[:2]
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port  # noqa: S104 compared, not bound


def http_origin(listener: socket.socket) -> str:
    """`http://127.0.0.1:8080`, as a person would type it."""
    host, port = local_address(listener)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
