"""Where this proxy itself listens no upstream is; where another may, there may be one."""

from __future__ import annotations

import errno
import socket
from typing import Any

import pytest

from proxy.itself import leads_back

PORT = 8000


def at(host: str, port: int = PORT) -> Any:
    if ":" in host:
        return socket.AF_INET6, socket.SOCK_STREAM, 6, "", (host, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "0.0.0.0"),  # where one connects to, that is the loopback address
        ("127.0.0.1", "::ffff:127.0.0.1"),
        ("10.0.0.5", "10.0.0.5"),
        ("::1", "::1"),
        ("::1", "::"),
        ("0.0.0.0", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.2"),
        ("0.0.0.0", "0.0.0.0"),
        ("0.0.0.0", "::ffff:127.0.0.1"),
        ("::", "127.0.0.1"),
        ("::", "0.0.0.0"),
        ("::", "::1"),
        ("::", "::"),
    ],
)
def test_an_address_at_which_this_proxy_listens_leads_back(here: str, there: str) -> None:
    assert leads_back(at(there), (here, PORT))
    assert not leads_back(at(there, PORT + 1), (here, PORT))
    assert not leads_back(at(there), None)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("127.0.0.1", "127.0.0.2"),
        ("127.0.0.1", "::1"),
        ("10.0.0.5", "127.0.0.1"),
        ("10.0.0.5", "0.0.0.0"),
        ("::1", "127.0.0.1"),
        ("0.0.0.0", "::1"),  # takes IPv4 alone: a vLLM may listen there
        ("0.0.0.0", "::"),
        # Documentation's: nobody is there, and no packet goes there either.
        ("0.0.0.0", "192.0.2.1"),
        ("::", "192.0.2.1"),
        ("::", "2001:db8::1"),
    ],
)
def test_where_another_may_listen_at_the_same_port_nothing_leads_back(here: str, there: str) -> None:
    assert not leads_back(at(there), (here, PORT))


def test_an_address_of_this_machine_leads_back_to_who_listens_at_all_of_them() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("192.0.2.1", PORT))
        except OSError:
            pytest.skip("this machine has a loopback address alone")
        own = asked.getsockname()[0]
    assert leads_back(at(own), ("0.0.0.0", PORT)) and leads_back(at(own), ("::", PORT))
    assert leads_back(at(f"::ffff:{own}"), ("0.0.0.0", PORT))


def test_where_the_kernel_knows_no_ipv6_its_addresses_do_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(socket, "socket", refused)
    assert not leads_back(at("2001:db8::1"), ("::", PORT))
