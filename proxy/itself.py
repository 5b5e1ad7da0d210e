"""Whether an address is where this proxy itself listens: as its own upstream it would ask itself without an end.

An address as getaddrinfo gives it, and where the listening socket is bound, in. Told from the addresses alone: what a
load balancer, or a port that is published under another number, hides is not seen. Sends nothing, raises nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from typing import Final

import aiohappyeyeballs

Listening = tuple[str, int]
"""The address and port of this proxy's own listening socket."""
ITSELF: Final = "this proxy itself listens there"
_LOOPBACK: Final = {4: ipaddress.ip_address("127.0.0.1"), 6: ipaddress.ip_address("::1")}


def leads_back(address: aiohappyeyeballs.AddrInfoType, listening: Listening | None) -> bool:
    """Whether a request that is sent there comes here, to be sent again, each time over one connection more."""
    family, _, _, _, at = address
    if listening is None or at[1] != listening[1]:
        return False
    here, there = _ip(listening[0]), _ip(at[0])
    if there.is_unspecified:  # to connect there is to connect to the loopback address
        there = _LOOPBACK[there.version]
    if not here.is_unspecified:
        return there == here
    if here.version < there.version:  # `::` takes IPv4, too, and another may listen on the other's IPv6
        return False
    return there.is_loopback or _is_of_this_machine(family, at)


def _is_of_this_machine(family: int, at: tuple[str, int] | tuple[str, int, int, int]) -> bool:
    """An address of this machine is reached from itself."""
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asked:
        asked.connect(at)  # sends nothing
        return _ip(asked.getsockname()[0]) == _ip(at[0])
    return False


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Without its network card; IPv4 that is written as IPv6 is IPv4."""
    found = ipaddress.ip_address(host.partition("%")[0])
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found
