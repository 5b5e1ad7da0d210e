"""Which address of the web may be fetched: a URL and the operator's lists in, its canonical parts or the reason out.

A name is judged twice: its URL by `address_of` before anything is asked, and every address it resolves to by
`is_public` and `Reach.takes` before anything is connected to. Refused are other schemes than http and https, ports that
are not listed, user and password, hosts that are no dotted name or public address, names of private use, and numbers in
any other writing than four decimals (octal, hex, one number, missing parts): what two parsers may read differently is
not fetched. So are characters that IDNA 2003 and 2008 read differently.

A rule `example.com` means that name and every name below it, at label borders: `www.example.com`, not `badexample.com`
and not `example.com.evil.org`. Deny beats allow; an empty allow list lets every public name through, a filled one only
what it names. A deny rule may also be an address or a network. Pure; asks no name server.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Literal
from urllib.parse import quote, urlsplit

Ip = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Refusal = Literal["url", "scheme", "userinfo", "port", "host", "private", "allow", "deny"]
"""Why an address is not fetched: not to be understood, ..., not on the allow list, on the deny list."""

URL_CHARS_MAX: Final = 2_048
PORTS: Final = (80, 443)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_FOUR_DECIMALS: Final = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9]{1,5}", re.ASCII)
# Sharp s, final sigma and the joiners: a 2003 reader maps or drops them, a 2008 reader goes to another name.
_READ_DIFFERENTLY: Final = frozenset("ßẞς\u200c\u200d")
# Names that are never public: RFC 6761, 6762, 7686, 8375, ICANN's .internal, and what routers and companies use.
_PRIVATE_NAMES: Final = frozenset(
    "localhost local localdomain internal intranet private corp lan home arpa onion invalid test example alt".split()  # noqa: SIM905
)
# Public by their number, and yet a door into the machine's own surroundings: the 6to4 relay, Azure's wire server.
_NOT_OURS_V4: Final = tuple(
    map(IPv4Network, ("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32"))
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
_GLOBAL_V6: Final = IPv6Network("2000::/3")
# Inside it: protocol assignments and Teredo, documentation, 6to4.
_NOT_GLOBAL_V6: Final = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_ISATAP: Final = (0x00005EFE, 0x02005EFE)


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A URL in parts that every parser reads alike. `host`: ASCII, lower, no brackets; `target`: path and query."""

    scheme: Literal["http", "https"]
    host: str
    port: int
    target: str

    @property
    def url(self) -> str:
        """The whole of it, without a fragment; the port only where it is not the scheme's own."""
        return f"{self.origin}{self.target}"

    @property
    def origin(self) -> str:
        """Scheme, host and port, by which robots.txt and turns at a host go."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    @property
    def ip(self) -> Ip | None:
        """The address, where the host is one."""
        return _ip(self.host)


@dataclass(frozen=True, slots=True)
class Reach:
    """The operator's lists. `allow`: names; `deny`: names, addresses and networks; all as `rule_of` gives them."""

    allow: tuple[str, ...] = ()
    deny: tuple[str | Network, ...] = ()
    ports: tuple[int, ...] = PORTS

    def refuses_name(self, host: str) -> Refusal | None:
        """What the lists say to a host in canonical form."""
        if any(isinstance(rule, str) and is_below(host, rule) for rule in self.deny):
            return "deny"
        if self.allow and not any(is_below(host, rule) for rule in self.allow):
            return "allow"
        return None

    def takes(self, ip: Ip) -> bool:
        """Whether no network of the deny list holds the address, plain or inside an IPv6 address."""
        nets = [rule for rule in self.deny if not isinstance(rule, str)]
        return not any(one in net for one in _forms(ip) for net in nets if net.version == one.version)


def address_of(url: str, reach: Reach) -> WebAddress | Refusal:
    """The address that may be asked, as far as its words tell; else why not."""
    read = _read(url)
    if isinstance(read, str):
        return read
    if read.port not in reach.ports:
        return "port"
    ip = read.ip
    if ip is not None and not is_public(ip):
        return "private"
    if ip is None and (refusal := _name_refusal(read.host)) is not None:
        return refusal
    if ip is not None and not reach.takes(ip):
        return "deny"
    return reach.refuses_name(read.host) or read


def rule_of(text: str, *, networks: bool = False) -> str | Network:
    """An entry of a list in canonical form. Raises ValueError in words that name the remedy."""
    entry = text.strip().lower()
    if networks and (found := _network(entry)) is not None:
        return found
    if "://" in entry or "/" in entry:
        wanted = "a name like example.com, an address or a network like 203.0.113.0/24" if networks else "a bare name"
        raise ValueError(f"{wanted}, without scheme or path")
    host = _canonical_host(entry.removeprefix("*.").removeprefix("."))
    if host is None or _ip(host) is not None:
        raise ValueError("a name like example.com, which stands for all names below it too")
    return host


def is_below(host: str, rule: str) -> bool:
    """Whether a host is the rule's name, or a name below it."""
    return host == rule or host.endswith(f".{rule}")


def is_public(ip: Ip) -> bool:
    """Whether an address is one of the public internet, also by what an IPv6 address carries inside it.

    Stricter than `ip.is_global`, which holds multicast, 6to4 and some relays for global: of IPv6 only 2000::/3 without
    its special parts, and NAT64 around a public IPv4 address.
    """
    if isinstance(ip, IPv4Address):
        special = ip.is_multicast or ip.is_reserved or ip.is_unspecified or any(ip in net for net in _NOT_OURS_V4)
        return ip.is_global and not special
    if ip.scope_id is not None:
        return False
    if ip.ipv4_mapped is not None:
        return is_public(ip.ipv4_mapped)
    if ip in _NAT64:
        return is_public(_last_v4(ip))
    if ip not in _GLOBAL_V6 or any(ip in net for net in _NOT_GLOBAL_V6):
        return False
    return ip.is_global and (not _is_isatap(ip) or is_public(_last_v4(ip)))


def _read(url: str) -> WebAddress | Refusal:
    """The parts of a URL. Whatever two parsers could read differently is refused, not repaired."""
    if not url or len(url) > URL_CHARS_MAX or not url.isprintable() or any(mark in url for mark in ' \\"<>`'):
        return "url"
    try:
        parts = urlsplit(url)
    except ValueError:
        return "url"
    if parts.scheme not in ("http", "https"):
        return "scheme"
    if "@" in parts.netloc:
        return "userinfo"
    scheme: Literal["http", "https"] = "https" if parts.scheme == "https" else "http"
    split = _host_and_port(parts.netloc, scheme)
    if split is None:
        return "host"
    host, port = split
    path = quote(_resolved(parts.path), safe="/%:@!$&'()*+,;=-._~")
    query = quote(parts.query, safe="/%:@!$&'()*+,;=-._~?[]")
    return WebAddress(scheme, host, port, f"{path}?{query}" if parts.query else path)


def _resolved(path: str) -> str:
    """A path without "." and ".." (RFC 3986, 5.2.4), encoded ones too: a server serves what they lead to, and what its
    robots.txt says is said of that.
    """
    kept: list[str] = []
    last = ""
    for segment in path.split("/")[1:]:
        last = segment.lower().replace("%2e", ".")
        if last == "..":
            del kept[-1:]
        elif last != ".":
            kept.append(segment)
    return "/" + "/".join([*kept, ""] if last in (".", "..") else kept)


def _host_and_port(netloc: str, scheme: str) -> tuple[str, int] | None:
    if netloc.startswith("["):
        inside, bracket, rest = netloc[1:].partition("]")
        found = _ip(inside.lower())
        if not bracket or not isinstance(found, IPv6Address) or found.scope_id is not None:
            return None
        host, given = str(found), rest
    else:
        name, colon, digits = netloc.partition(":")
        canonical = _canonical_host(name)
        if canonical is None:
            return None
        host, given = canonical, f"{colon}{digits}"
    if given in ("", ":"):
        return host, _DEFAULT_PORTS[scheme]
    if not given.startswith(":") or not _DIGITS.fullmatch(given[1:]) or not 0 < int(given[1:]) < 65_536:
        return None
    return host, int(given[1:])


def _canonical_host(name: str) -> str | None:
    """A dotted name or four decimals, ASCII and lower case; None for anything else, disguised numbers included."""
    if not name or not _READ_DIFFERENTLY.isdisjoint(name):
        return None
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii")
        except UnicodeError:
            return None
    host = name.lower().removesuffix(".")
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        return None
    if _NUMBER.fullmatch(labels[-1]):  # an address in the eyes of every browser, in whichever writing
        return host if _FOUR_DECIMALS.fullmatch(host) and _ip(host) is not None else None
    return host


def _name_refusal(host: str) -> Refusal | None:
    labels = host.split(".")
    if len(labels) < 2:
        return "host"
    return "private" if labels[-1] in _PRIVATE_NAMES else None


def _ip(text: str) -> Ip | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _network(text: str) -> Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def _forms(ip: Ip) -> Sequence[Ip]:
    """The address, and the IPv4 address that it leads to where it is one of IPv6."""
    if isinstance(ip, IPv4Address):
        return (ip,)
    if ip.ipv4_mapped is not None:
        return (ip, ip.ipv4_mapped)
    return (ip, _last_v4(ip)) if ip in _NAT64 or _is_isatap(ip) else (ip,)


def _is_isatap(ip: IPv6Address) -> bool:
    return (int(ip) >> 32) & 0xFFFFFFFF in _ISATAP


def _last_v4(ip: IPv6Address) -> IPv4Address:
    return IPv4Address(int(ip) & 0xFFFFFFFF)
