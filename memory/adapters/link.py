"""A link to a server that is cut without a word is noticed in seconds: a socket in, TCP told to look after it.

Nothing for a Unix socket, or for what this system does not know. Refuses nothing.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any, Final

# Where the system knows these (Linux; macOS has some), a link that is cut is noticed within about 15 s: two probes of a
# silent one, as long for what is not acknowledged. TCP by itself waits a quarter of an hour, and a worker's statement
# may take a minute: its lane would wait for it.
_LINK: Final = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2, "TCP_USER_TIMEOUT": 15_000}


def watch_link(link: Any) -> None:
    """Have TCP notice that the other end is gone; nothing for a Unix socket, or for what this system does not know."""
    if link is None or link.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with suppress(OSError):
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _LINK.items():
        if hasattr(socket, name):
            with suppress(OSError):  # a kernel that knows less than Python: the link is as good as it was
                link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
