"""Which URLs may be fetched: what leads into a private network is refused in whatever writing."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from policies.web_address import PORTS, URL_CHARS_MAX, Reach, WebAddress, address_of, is_below, is_public, rule_of

ANY = Reach()
PRIVATE_V4 = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254",
    "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1",
    "192.168.1.1", "198.18.0.1", "198.51.100.7", "203.0.113.7", "224.0.0.1", "239.1.1.1", "240.0.0.1",
    "255.255.255.255",
]  # fmt: skip
PUBLIC_V4 = ["1.1.1.1", "8.8.8.8", "93.184.215.14", "172.32.0.1", "100.63.255.255", "193.0.0.1", "223.255.255.255"]
PRIVATE_V6 = [
    "::", "::1", "::ffff:127.0.0.1", "::ffff:10.1.2.3", "::127.0.0.1", "::8.8.8.8", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "100::1", "2001::1", "2001:0:53aa:64c:0:7fff:80ff:fffe",
    "2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1",
    "fec0::1", "ff02::1", "ff0e::1", "2a00:1450::5efe:7f00:1", "2a00:1450::200:5efe:a00:1", "fe80::1%eth0",
    "2606:4700:4700::1111%1",
]  # fmt: skip
PUBLIC_V6 = ["2606:4700:4700::1111", "2a00:1450:4001:80b::200e", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("text", PRIVATE_V4 + PRIVATE_V6)
def test_what_is_not_the_public_internet_is_never_an_address(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", PUBLIC_V4 + PUBLIC_V6)
def test_the_public_internet_is(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


@given(st.ip_addresses())
def test_nothing_that_python_holds_for_private_passes(ip: IPv4Address | IPv6Address) -> None:
    if is_public(ip):
        inner = ip.ipv4_mapped if isinstance(ip, IPv6Address) and ip.ipv4_mapped else ip
        assert not (inner.is_private or inner.is_loopback or inner.is_link_local or inner.is_multicast)


@given(st.ip_addresses(v=4))
@example(IPv4Address("127.0.0.1"))
@example(IPv4Address("169.254.169.254"))
def test_an_address_in_another_writing_is_refused_or_judged_as_itself(ip: IPv4Address) -> None:
    a, b, c, d = ip.packed
    number = int(ip)
    writings = {
        str(number), hex(number), f"0{number:o}", f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}", f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"{a}.{number & 0xFFFFFF}", f"{a}.{b}.{number & 0xFFFF}", f"{a}.{b}.{c}.0x{d:x}",
        f"{a:03}.{b:03}.{c:03}.{d:03}",
        f"{ip}.", "".join(chr(ord(sign) + 0xFEE0) if sign.isdigit() else sign for sign in str(ip)),
        str(ip).replace(".", "。"), f"[::ffff:{ip}]", f"[::{ip}]", f"[64:ff9b::{ip}]",
        f"[::ffff:{a:x}{b:02x}:{c:x}{d:02x}]",
    }  # fmt: skip
    for host in writings:
        found = address_of(f"http://{host}/", ANY)
        if isinstance(found, WebAddress):
            assert is_public(ip)
            assert found.ip is not None
            assert is_public(found.ip)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "url"),
        ("http://example.com/" + "a" * URL_CHARS_MAX, "url"),
        ("http://exa\tmple.com/", "url"),
        ("http://example.com/\r\nHost: 127.0.0.1", "url"),
        ("http://example.com\\@127.0.0.1/", "url"),
        ("http://example.com/ x", "url"),
        ("http://[::1", "url"),
        ("ftp://example.com/", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("gopher://example.com:70/_x", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("//example.com/", "scheme"),
        ("example.com", "scheme"),
        ("http://user@example.com/", "userinfo"),
        ("http://user:pass@example.com/", "userinfo"),
        ("http://127.0.0.1@example.com/", "userinfo"),
        ("http://@example.com/", "userinfo"),
        ("http://example.com:22/", "port"),
        ("https://example.com:8443/", "port"),
        ("http://example.com:0/", "host"),
        ("http://example.com:99999/", "host"),
        ("http://example.com:80:80/", "host"),
        ("http://example.com:+80/", "host"),
        ("http:///path", "host"),
        ("http://intranet/", "host"),
        ("http://localhost/", "host"),
        ("http://exa%6dple.com/", "host"),
        ("http://a..example.com/", "host"),
        ("http://-a.example.com/", "host"),
        ("http://faß.de/", "host"),
        ("http://2130706433/", "host"),
        ("http://0x7f000001/", "host"),
        ("http://0177.0.0.1/", "host"),
        ("http://127.1/", "host"),
        ("http://1.2.3.4.5/", "host"),
        ("http://256.1.1.1/", "host"),
        ("http://example.0x7f/", "host"),
        ("http://127.0.0.1/", "private"),
        ("http://[::1]/", "private"),
        ("http://[0:0:0:0:0:ffff:7f00:1]/", "private"),
        ("http://169.254.169.254/latest/meta-data/", "private"),
        ("http://a.localhost/", "private"),
        ("http://printer.local/", "private"),
        ("http://metadata.google.internal/", "private"),
        ("http://1.0.0.127.in-addr.arpa/", "private"),
    ],
)
def test_what_is_refused_says_why(url: str, reason: str) -> None:
    assert address_of(url, ANY) == reason


@pytest.mark.parametrize("host", ["[fe80::1%25eth0]", "[fe80::1%eth0]", "[::1%lo]", "[127.0.0.1]", "[::1].example.com"])
def test_brackets_hold_an_address_and_nothing_else(host: str) -> None:
    assert address_of(f"http://{host}/", ANY) in ("host", "url")  # a newer Python refuses some of these itself


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTPS://Example.COM.:443/A?b=c#d", "https://example.com/A?b=c"),
        ("http://example.com:/", "http://example.com/"),
        ("http://example.com:443/", "http://example.com:443/"),
        ("http://bücher.de/ä?ü=ö", "http://xn--bcher-kva.de/%C3%A4?%C3%BC=%C3%B6"),
        ("http://1.1.1.1/", "http://1.1.1.1/"),
        ("http://[2606:4700:4700:0::1111]/", "http://[2606:4700:4700::1111]/"),
        ("https://en.wikipedia.org/wiki/A_(b)?x=1&y=%2F", "https://en.wikipedia.org/wiki/A_(b)?x=1&y=%2F"),
        ("http://example.com/a|b{c}", "http://example.com/a%7Cb%7Bc%7D"),
        ("http://example.com/x/../private", "http://example.com/private"),
        ("http://example.com/../x/./%2e%2E/private/..?a=/../b", "http://example.com/?a=/../b"),
    ],
)
def test_what_may_be_asked_has_one_writing(url: str, canonical: str) -> None:
    found = address_of(url, ANY)
    assert isinstance(found, WebAddress)
    assert found.url == canonical


@given(st.from_regex(r"(https?://)?[a-zA-Z0-9.\[\]:@%_\-/?#ä。①⒈\\]{1,60}", fullmatch=True))
@example("http://⒈1.1.1/")
@example("http://①②⑦.0.0.1/")
@example("http://0.ä/")
@example("https://straße.example/")
def test_the_client_reads_the_host_that_was_judged(url: str) -> None:
    found = address_of(url, ANY)
    if not isinstance(found, WebAddress):
        return
    read = URL(found.url, encoded=True)
    assert (read.scheme, read.raw_host, read.port) == (found.scheme, found.host, found.port)
    assert read.raw_path_qs == found.target
    assert read.user is None
    assert address_of(found.url, ANY) == found
    assert found.host.isascii()
    assert found.port in PORTS


def test_a_rule_stands_for_a_name_and_all_below_it() -> None:
    for host in ("example.com", "www.example.com", "a.b.example.com"):
        assert is_below(host, "example.com")
    for host in ("badexample.com", "example.com.evil.org", "com", "xample.com"):
        assert not is_below(host, "example.com")


def test_deny_beats_allow_and_a_filled_allow_list_lets_nothing_else_through() -> None:
    reach = Reach(allow=("example.com", "python.org"), deny=("bad.example.com",))
    assert isinstance(address_of("https://docs.python.org/3/", reach), WebAddress)
    assert isinstance(address_of("https://example.com/", reach), WebAddress)
    assert address_of("https://x.bad.example.com/", reach) == "deny"
    assert address_of("https://other.org/", reach) == "allow"
    assert address_of("http://1.1.1.1/", reach) == "allow"
    assert address_of("http://127.0.0.1/", Reach(allow=("127.0.0.1",))) == "private"


def test_a_denied_network_is_denied_in_every_form() -> None:
    reach = Reach(deny=(rule_of("8.8.8.0/24", networks=True), rule_of("2606:4700::/32", networks=True)))
    for text in ("8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::808:808", "2606:4700:4700::1111"):
        assert not reach.takes(ipaddress.ip_address(text))
    assert reach.takes(ipaddress.ip_address("8.8.4.4"))
    assert address_of("http://8.8.8.8/", reach) == "deny"
    assert address_of("http://[::ffff:8.8.8.8]/", reach) == "deny"


def test_ports_are_those_that_are_listed() -> None:
    reach = Reach(ports=(443, 8443))
    assert isinstance(address_of("https://example.com:8443/", reach), WebAddress)
    assert address_of("http://example.com/", reach) == "port"


@pytest.mark.parametrize(
    ("text", "rule"),
    [("Example.com", "example.com"), ("*.example.com", "example.com"), (".bücher.de", "xn--bcher-kva.de")],
)
def test_a_rule_has_one_writing_too(text: str, rule: str) -> None:
    assert rule_of(text) == rule


@pytest.mark.parametrize(
    "text", ["", "https://example.com", "example.com/path", "1.2.3.4", "a b", "a..b", "10.0.0.0/8"]
)
def test_a_rule_that_is_no_name_says_what_one_looks_like(text: str) -> None:
    with pytest.raises(ValueError, match="name"):
        rule_of(text)
