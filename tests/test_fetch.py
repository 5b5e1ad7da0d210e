"""Pages of the web: only from where it is allowed, within bounds, and every failure has its name."""

from __future__ import annotations

import asyncio
import gzip
import inspect
import time
import zlib
from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509

from memory.adapters.fetch import FetchBounds, WebFetcher
from memory.adapters.robots import FILES_BYTES_MAX, Answer, Robots
from memory.config import Settings
from memory.errors import FetchFailed, FetchRefused, OutsideUnavailable
from policies.web_address import Reach, WebAddress, is_public
from tests.certificate import self_signed
from tests.web_site import Names, Site, answer, is_here, redirect, site

SMALL = FetchBounds(page_bytes_max=50_000, head_s=20.0, total_s=30.0)
HASTY = FetchBounds(page_bytes_max=50_000, head_s=0.5, total_s=2.0)


@pytest.fixture
async def web() -> AsyncIterator[Site]:
    async with site() as running:
        yield running


def fetcher(web: Site, names: Names | None = None, bounds: FetchBounds = SMALL, **lists: tuple[str, ...]) -> WebFetcher:
    reach = Reach(ports=(80, 443, web.port), **lists)
    return WebFetcher(reach, bounds, contact="ops@example.org", resolve=names or Names(), is_allowed_ip=is_here)


async def reason(work: Awaitable[object]) -> str:
    with pytest.raises(OutsideUnavailable) as caught:
        await work
    return caught.value.reason


async def test_a_page_comes_with_its_address_type_charset_and_time(web: Site) -> None:
    web.scripts["/a?b=c"] = answer(b"<p>hello</p>", media_type="text/html; Charset=ISO-8859-1")
    page = await fetcher(web).fetch(web.url("/a?b=c#part"))
    assert (page.url, page.media_type, page.charset) == (web.url("/a?b=c"), "text/html", "ISO-8859-1")
    assert page.body == b"<p>hello</p>"
    assert abs((datetime.now(UTC) - page.fetched_at).total_seconds()) < 60


async def test_a_request_says_who_asks_and_nothing_of_whom_it_is_for(
    web: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.9:1")
    web.scripts["/"] = answer(b"", set_cookie="a=b; Path=/")
    one = fetcher(web)
    await one.fetch(web.url())
    await one.fetch(web.url())
    head = web.heads[-1]
    assert sorted(line.partition(":")[0] for line in head.split("\r\n")[1:] if line) == [
        "Accept", "Accept-Encoding", "Connection", "Host", "User-Agent"
    ]  # fmt: skip
    assert "User-Agent: memory-proxy/1 (+ops@example.org)\r\n" in head


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://2130706433:{port}/",
        "http://0x7f.1:{port}/",
        "http://[::1]:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://localhost:{port}/",
        "http://user:pass@site.example.org:{port}/",
        "http://site.example.org:1/",
        "http://intranet:{port}/",
        "file:///etc/passwd",
        "http://169.254.169.254/",
    ],
)
async def test_an_address_that_is_refused_is_never_connected_to(web: Site, url: str) -> None:
    names = Names()
    assert await reason(fetcher(web, names).fetch(url.format(port=web.port))) == "refused_address"
    assert (web.heads, names.asked) == ([], [])


@pytest.mark.parametrize(
    "addresses", [("127.0.0.2",), ("10.0.0.1",), ("127.0.0.1", "10.0.0.1"), ("::1",), ("fe80::1%lo",), ("nonsense",)]
)
async def test_a_name_that_leads_to_a_private_address_is_refused(web: Site, addresses: tuple[str, ...]) -> None:
    names = Names({"site.example.org": [addresses]})
    assert await reason(fetcher(web, names).fetch(web.url())) == "refused_address"
    assert web.heads == []


async def test_what_was_judged_is_what_is_connected_to_though_the_name_changes_its_mind(web: Site) -> None:
    """A name that answers publicly first and privately then: nothing is asked between judging and connecting."""
    names = Names({"site.example.org": [("127.0.0.1",), ("127.0.0.1",), ("127.0.0.2",)]})
    web.scripts["/"] = answer()
    one = fetcher(web, names)
    assert (await one.fetch(web.url())).body == b"<p>hello</p>"
    assert len(names.asked) == len(web.heads) == 2  # robots.txt and the page: one question for each connection
    assert await reason(one.fetch(web.url())) == "refused_address"
    assert len(web.heads) == 2


async def test_redirects_are_judged_as_the_first_address_was(web: Site) -> None:
    names = Names({"inside.example.org": [("127.0.0.2",)]})
    for path, to in {
        "/literal": "http://169.254.169.254/latest/meta-data/",
        "/name": web.url("/", "inside.example.org"),
        "/number": f"http://2130706433:{web.port}/",
        "/scheme": "file:///etc/passwd",
        "/userinfo": web.url("/").replace("http://", "http://a:b@"),
        "/port": "http://site.example.org:22/",
    }.items():
        web.scripts[path] = redirect(to)
        assert await reason(fetcher(web, names).fetch(web.url(path))) == "refused_address"
    assert "/latest/meta-data/" not in web.paths


async def test_a_redirect_is_followed_where_it_may_go(web: Site) -> None:
    web.scripts |= {
        "/a": redirect("/b", "301 Moved"),
        "/b": redirect(web.url("/c", "other.example.org")),
        "/c": answer(),
    }
    page = await fetcher(web).fetch(web.url("/a"))
    assert page.url == web.url("/c", "other.example.org")
    assert [head.split("Host: ")[1].split(":")[0] for head in web.heads][-2:] == ["other.example.org"] * 2


async def test_lists_hold_behind_a_redirect(web: Site) -> None:
    web.scripts |= {"/a": redirect(web.url("/", "other.example.net")), "/": answer()}
    assert await reason(fetcher(web, allow=("example.org",)).fetch(web.url("/a"))) == "refused_address"
    assert await reason(fetcher(web, deny=("example.net",)).fetch(web.url("/a"))) == "refused_address"
    assert (await fetcher(web, allow=("example.org", "example.net")).fetch(web.url("/a"))).body


async def test_redirects_end(web: Site) -> None:
    web.scripts |= {
        "/loop": redirect("/loop"),
        "/nowhere": answer(b"", status="302 Found"),
        "/bad": redirect("http://[::1"),
    }
    for path in ("/loop", "/nowhere", "/bad"):
        assert await reason(fetcher(web).fetch(web.url(path))) == "redirects"
    assert web.paths.count("/loop") == 4


async def test_robots_txt_is_read_first_once_and_kept(web: Site) -> None:
    rules = b"User-agent: *\nDisallow: /private\nAllow: /private/open\n\nUser-agent: memory-proxy\nDisallow: /*.pdf$\n"
    web.scripts |= {"/robots.txt": answer(rules, media_type="text/plain"), "/private": answer(), "/a.pdf": answer()}
    one = fetcher(web)
    assert (await one.fetch(web.url("/private"))).body  # our own group stands instead of that for all
    assert await reason(one.fetch(web.url("/a.pdf"))) == "robots"
    assert web.paths == ["/private"]
    assert len(web.heads) == 2


async def test_robots_txt_of_the_site_behind_a_redirect_is_heeded(web: Site) -> None:
    async with site() as other:
        other.scripts |= {"/robots.txt": answer(b"User-agent: *\nDisallow: /"), "/": answer()}
        web.scripts["/"] = redirect(other.url())
        one = WebFetcher(Reach(ports=(web.port, other.port)), SMALL, resolve=Names(), is_allowed_ip=is_here)
        assert await reason(one.fetch(web.url())) == "robots"
        assert other.paths == []


@pytest.mark.parametrize(
    ("status", "stays_out"), [("404 Not Found", ""), ("403 No", ""), ("500 Oh", "robots"), ("429 Slow", "robots")]
)
async def test_a_site_whose_rules_cannot_be_had_is_left_alone(web: Site, status: str, stays_out: str) -> None:
    web.scripts |= {"/robots.txt": answer(b"", status=status), "/": answer()}
    if stays_out:
        assert await reason(fetcher(web).fetch(web.url())) == stays_out
    else:
        assert (await fetcher(web).fetch(web.url())).body


async def test_robots_txt_leads_into_no_private_network_either(web: Site) -> None:
    web.scripts |= {"/robots.txt": redirect("http://169.254.169.254/"), "/": answer()}
    assert await reason(fetcher(web).fetch(web.url())) == "refused_address"


async def test_a_large_robots_txt_is_read_as_far_as_its_bound(web: Site) -> None:
    long = b"User-agent: *\nDisallow: /x\n" + b"#" * 2_000_000 + b"\nDisallow: /\n"
    web.scripts |= {"/robots.txt": answer(long), "/": answer(), "/x": answer()}
    assert (await fetcher(web).fetch(web.url())).body
    assert await reason(fetcher(web).fetch(web.url("/x"))) == "robots"


async def test_rules_for_very_many_crawlers_cost_no_more_than_those_for_one(web: Site) -> None:
    """Each rule is one for every name above it: 2,000 names and 3,000 rules are 60 KB, and were 6 million rules."""
    names = b"".join(b"User-agent: bot%d\n" % number for number in range(2_000))
    rules = b"User-agent: memory-proxy\n" + b"Disallow: /x\n" * 3_000
    web.scripts |= {"/robots.txt": answer(names + rules), "/": answer(), "/x": answer()}
    one, began_s = fetcher(web), time.process_time()
    assert (await one.fetch(web.url())).body
    assert time.process_time() - began_s < 1
    assert await reason(one.fetch(web.url("/x"))) == "robots"


async def test_the_rules_of_many_sites_are_kept_as_far_as_their_bytes_go() -> None:
    """256 files of 512 KiB are 3 GB as rules, and the hosts of one domain are as many as somebody wants."""
    read: list[str] = []

    async def ask(address: WebAddress) -> Answer:
        read.append(address.host)
        return Answer(200, "text/plain", "", "", b"User-agent: *\nDisallow: /x\n" + b"#" * (FILES_BYTES_MAX // 4))

    robots = Robots("memory-proxy", ask)
    for host in ("a", "b", "c", "d", "a", "e"):
        assert await robots.allows(WebAddress("https", host, 443, "/"))
        assert sum(one.bytes for one in robots._origins.values()) <= FILES_BYTES_MAX
    assert read == ["a", "b", "c", "d", "a", "e"] and not await robots.allows(WebAddress("https", "e", 443, "/x"))
    assert len(robots._origins) == 3, "none is kept that there is room for"


async def test_a_page_that_says_there_are_no_rules_takes_no_room_of_theirs() -> None:
    async def ask(_: WebAddress) -> Answer:
        return Answer(404, "text/html", "", "", b"#" * (FILES_BYTES_MAX // 4))

    robots = Robots("memory-proxy", ask)
    for number in range(8):
        assert await robots.allows(WebAddress("https", f"h{number}", 443, "/"))
    assert len(robots._origins) == 8


@pytest.mark.parametrize(
    "agents",
    [
        "User-agent: other\nUser-agent: memory-proxy", "useragent memory-proxy # us", "User  Agent Memory-Proxy",
        "user agent : MEMORY-PROXY*", "User-agent: memory", "User-agent: *", "User-agent: x\nDisallow:\nUser-agent: *",
    ],
)  # fmt: skip
async def test_our_rules_are_found_however_they_are_headed(web: Site, agents: str) -> None:
    text = f"User-agent: googlebot\nDisallow: /\n\n{agents}\nDisallow: /x\n\nUser-agent: bingbot\nDisallow: /y\n"
    web.scripts |= {"/robots.txt": answer(text.encode()), "/": answer(), "/x": answer(), "/y": answer()}
    one = fetcher(web)
    assert (await one.fetch(web.url())).body and (await one.fetch(web.url("/y"))).body
    assert await reason(one.fetch(web.url("/x"))) == "robots"


async def _endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
    while True:
        writer.write(b"x" * 10_000)
        await writer.drain()


def _bomb(size: int) -> bytes:
    return gzip.compress(b"\0" * size)


async def test_what_is_too_large_is_left_when_it_is(web: Site) -> None:
    web.scripts |= {
        "/said": answer(b"x" * 60_000),
        "/endless": _endless,
        "/bomb": answer(_bomb(30_000_000), content_encoding="gzip"),
        "/raw": answer(zlib.compress(b"\0" * 30_000_000)[2:], content_encoding="deflate"),
    }
    for path in ("/said", "/endless", "/bomb", "/raw"):
        assert await reason(fetcher(web).fetch(web.url(path))) == "too_large"


async def test_compressed_pages_unpack_within_the_bound(web: Site) -> None:
    page = b"<p>hello</p>" * 1_000
    web.scripts |= {
        "/gzip": answer(gzip.compress(page), content_encoding="gzip"),
        "/zlib": answer(zlib.compress(page), content_encoding="deflate"),
        "/raw": answer(zlib.compress(page)[2:-4], content_encoding="deflate"),
    }
    for path in ("/gzip", "/zlib", "/raw"):
        assert (await fetcher(web).fetch(web.url(path))).body == page


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (answer(gzip.compress(b"x" * 999)[:-12], content_encoding="gzip"), "unreadable"),
        (answer(b"no gzip at all", content_encoding="gzip"), "unreadable"),
        (answer(b"x", content_encoding="br"), "media_type"),
        (answer(b"x", content_encoding="gzip, gzip"), "media_type"),
        (answer(b"%PDF", media_type="application/pdf"), "media_type"),
        (answer(b"{}", media_type="application/json"), "media_type"),
        (answer(b"x", media_type=""), "media_type"),
        (answer(b"", status="404 Not Found"), "http_status"),
        (answer(b"", status="503 Later"), "http_status"),
        (answer(b"", status="204 Nothing"), "http_status"),
        (b"", "unreachable"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "unreachable"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 99\r\n\r\nhalf", "unreachable"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "unreachable"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n", "unreachable"),
    ],
)
async def test_every_failure_has_its_name(web: Site, script: bytes, why: str) -> None:
    web.scripts["/"] = script
    assert await reason(fetcher(web).fetch(web.url())) == why


async def _silent(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def _drip_head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(1_000):
        writer.write(b"X-%d: a\r\n" % number)
        await writer.drain()
        await asyncio.sleep(0.05)


async def _drip_body(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


async def test_what_is_too_slow_is_left_within_its_time(web: Site) -> None:
    web.scripts |= {"/silent": _silent, "/head": _drip_head, "/body": _drip_body}
    for path in ("/silent", "/head", "/body"):
        began = time.monotonic()
        assert await reason(fetcher(web, bounds=HASTY).fetch(web.url(path))) == "too_slow"
        assert time.monotonic() - began < HASTY.total_s + 2


async def test_a_name_server_that_does_not_answer_costs_no_more_than_a_head(web: Site) -> None:
    async def never(host: str) -> list[str]:
        await asyncio.sleep(60)
        return []

    one = WebFetcher(Reach(ports=(web.port,)), HASTY, resolve=never, is_allowed_ip=is_here)
    assert await reason(one.fetch(web.url())) == "too_slow"


async def test_nobody_there_is_unreachable(web: Site) -> None:
    async def unknown(host: str) -> list[str]:
        raise OSError("no such name")

    assert await reason(fetcher(web, Names({"site.example.org": [()]})).fetch(web.url())) == "unreachable"
    one = WebFetcher(Reach(ports=(web.port,)), SMALL, resolve=unknown, is_allowed_ip=is_here)
    assert await reason(one.fetch(web.url())) == "unreachable"
    async with site() as closed:
        pass
    two = WebFetcher(Reach(ports=(closed.port,)), SMALL, resolve=Names(), is_allowed_ip=is_here)
    assert await reason(two.fetch(closed.url())) == "unreachable"


async def test_a_caller_that_leaves_takes_the_connection_along(web: Site) -> None:
    web.scripts |= {"/body": _drip_body, "/": answer()}
    one = fetcher(web, bounds=FetchBounds(total_s=60))
    work = asyncio.create_task(one.fetch(web.url("/body")))
    while "/body" not in web.paths:
        await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    for _ in range(200):
        if not web.open:
            break
        await asyncio.sleep(0.01)
    assert web.open == 0
    assert (await one.fetch(web.url())).body  # and its turn at the host is free again


async def test_a_host_is_asked_one_thing_at_a_time(web: Site) -> None:
    async def slowly(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05)
        writer.write(answer())

    web.scripts["/"] = slowly
    one = fetcher(web)
    await asyncio.gather(*(one.fetch(web.url()) for _ in range(4)))
    assert web.open_max == 1
    assert len(web.heads) == 5
    assert one._turns == {}


async def test_a_certificate_that_nobody_vouches_for_is_no_page(tmp_path: Path) -> None:
    tls, _ = self_signed(tmp_path, x509.DNSName("site.example.org"))
    async with site(tls) as web:
        web.scripts["/"] = answer()
        assert await reason(fetcher(web).fetch(web.url().replace("http://", "https://"))) == "unreachable"
        assert web.heads == []


async def test_faults_tell_no_more_than_a_host(web: Site) -> None:
    web.scripts["/secret-path?q=secret"] = answer(b"secret words", status="500 secret")
    with pytest.raises(FetchFailed) as caught:
        await fetcher(web).fetch(web.url("/secret-path?q=secret"))
    assert "secret" not in str(caught.value)
    with pytest.raises(FetchRefused) as refused:
        await fetcher(web).fetch("http://10.0.0.1/secret")
    assert "secret" not in str(refused.value)


def test_no_setting_makes_a_private_address_public() -> None:
    """What lets the tests above use loopback is an argument that is only given here."""
    assert inspect.signature(WebFetcher).parameters["is_allowed_ip"].default is is_public
    root = Path(__file__).parents[1]
    given = [path for part in ("memory", "proxy", "bench", "policies") for path in (root / part).rglob("*.py")]
    assert [path.name for path in given if "is_allowed_ip=" in path.read_text()] == []
    assert not any("private" in name or "loopback" in name for name in Settings.model_fields)
