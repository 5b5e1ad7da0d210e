"""Looking for secrets where none may be: a running service and made-up secrets in, where bytes of them lie out.

Looks at every column of every table (as Postgres writes it, sealed bytes as hex), every key and value of Redis, every
file of the data directory as raw bytes (heaps, WAL, append-only file, spool, sockets left out) and the log. Each secret
is looked for plain, in base64 at the three offsets it can have (both alphabets), URL-encoded, and JSON-escaped.
Reports the place, the form and the secret's name, never the secret.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import string
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import asyncpg
import redis.asyncio as redis

FILE_BYTES_MAX: Final = 256 * 1024 * 1024
KEY_BYTES_MAX: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, order=True)
class Trace:
    """One secret in one form in one place."""

    place: str
    form: str
    secret: str


def forms(secret: str) -> dict[str, bytes]:
    """What a secret may look like, by name of the form."""
    raw = secret.encode()
    found = {
        "plain": raw,
        "url": urllib.parse.quote(secret, safe="").encode(),
        "every byte url": "".join(f"%{byte:02X}" for byte in raw).encode(),
        "json": json.dumps(secret)[1:-1].encode(),
        "hex": raw.hex().encode(),
    }
    for offset in range(3):
        inner = base64.b64encode(b"\x00" * offset + raw)
        # What stands before and behind in the same stream changes the first and the last four characters.
        core = inner[4 if offset else 0 : -4].rstrip(b"=")
        found[f"base64+{offset}"] = core
        found[f"base64url+{offset}"] = core.translate(bytes.maketrans(b"+/", b"-_"))
    return {form: value for form, value in found.items() if form == "plain" or value != raw}


def traces_in(raw: bytes, place: str, secrets: Mapping[str, str]) -> Iterator[Trace]:
    """The secrets that these bytes hold."""
    for name, secret in secrets.items():
        for form, value in forms(secret).items():
            if value in raw:
                yield Trace(place, form, name)


async def hunt(
    data: Path, log: Path, secrets: Mapping[str, str], pages: Mapping[str, bytes] | None = None
) -> list[Trace]:
    """Every trace in a running service's stores, files, log, and these pages."""
    settings = json.loads((data / "run" / "settings.json").read_text())
    found: set[Trace] = set()
    for place, raw in (pages or {}).items():
        found.update(traces_in(raw, place, secrets))
    async for place, raw in _tables(str(settings["database"]["owner_url"])):
        found.update(traces_in(raw, place, secrets))
    for url in {settings["redis"]["url"], settings["redis"].get("cache_url")} - {None}:
        async for place, raw in _keys(str(url)):
            found.update(traces_in(raw, place, secrets))
    for place, raw in await asyncio.to_thread(lambda: list(_files(data))):
        found.update(traces_in(raw, place, secrets))
    found.update(traces_in(log.read_bytes(), "log", secrets))
    return sorted(found)


async def _tables(dsn: str) -> Any:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("CHECKPOINT")
        for (table,) in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
            columns = await connection.fetch(
                "SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped",
                table,
            )
            for (column,) in columns:
                said = await connection.fetch(f'SELECT "{column}"::text FROM "{table}"')
                yield f"table {table}.{column}", "\n".join(row[0] or "" for row in said).encode()
    finally:
        await connection.close()


async def _keys(url: str) -> Any:
    client = redis.Redis.from_url(url)
    try:
        async for key in client.scan_iter(count=1000):
            yield "redis key", key
            said: Any = await client.type(key)
            kind = said.decode("ascii")
            yield f"redis {kind}", await _value(client, key, kind)
    finally:
        await client.aclose()


async def _value(client: Any, key: bytes, kind: str) -> bytes:
    """Everything that a key holds, as one run of bytes."""
    ask = {
        "string": lambda: client.getrange(key, 0, KEY_BYTES_MAX),
        "hash": lambda: client.hgetall(key),
        "list": lambda: client.lrange(key, 0, -1),
        "set": lambda: client.smembers(key),
        "zset": lambda: client.zrange(key, 0, -1),
        "stream": lambda: client.xrange(key),
    }.get(kind)
    return b"" if ask is None else b"\n".join(_flat(await ask()))


def _flat(value: Any) -> Iterator[bytes]:
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from (*_flat(name), *_flat(one))
    elif isinstance(value, list | tuple | set):
        for one in value:
            yield from _flat(one)


def _files(data: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(data.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= FILE_BYTES_MAX:
            place = path.relative_to(data)
            top = place.parts[0] if len(place.parts) > 1 else place.name
            yield f"file under {top}", path.read_bytes()


def made_up(shape: str, seed: int) -> str:
    """A secret that opens nothing, of the shape that is named."""
    rng = random.Random(seed)
    upper, digits = string.ascii_uppercase + string.digits, string.digits

    def body(length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
        return "".join(rng.choices(alphabet, k=length))

    whole = {
        "github": f"ghp_a1B{body(33)}",
        "openai": f"sk-proj-a1B{body(57)}",
        "aws": f"AKIA{body(15, upper)}7",
        "password": f"Zx7{body(13)}!q",
        "url password": f"pw7{body(14)}K9k",
        "jwt": f"eyJ{body(24)}.eyJ{body(48)}.{body(43)}",
        "slack": f"xoxb-{body(12, digits)}-{body(12, digits)}-a1B{body(21)}",
    }
    return whole[shape]
