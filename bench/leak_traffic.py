"""The requests of the leak test: scopes in, requests with true, forged, missing, doubled and oversized identity out.

A request knows whose memory it may see, which may be nobody's, and which answers it may get. Deterministic by seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.leak_store import Owner

SERVED: Final = frozenset({200})
HEADER_BYTES_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `sees`: whose memory it may be given. `statuses`: what it may be answered; empty: anything."""

    kind: str
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: Any
    sees: tuple[str, str, str] | None
    statuses: frozenset[int]


@dataclass(frozen=True, slots=True)
class Keys:
    """Secrets by tenant: one that may name any user; by scope number one that fixes it; those that die on the way."""

    any_user: Mapping[str, str]
    fixed: Mapping[int, str]
    dying: Mapping[str, str]


class Traffic:
    """Makes calls. `ids` are memory, session and retrieval ids by scope number, as somebody might have got hold of."""

    def __init__(self, owners: Sequence[Owner], keys: Keys, ids: Mapping[int, Sequence[str]], seed: int) -> None:
        self._owners = owners
        self._keys = keys
        self._ids = ids
        self._rng = random.Random(seed)
        self._fixed = [owner for owner in owners if owner.number in keys.fixed]
        ways: dict[Callable[[int], Call], int] = {
            self._true: 20,
            self._asks_for_foreign: 20,
            self._foreign_name: 8,
            self._fixed_key_names_another: 8,
            self._forged_key: 8,
            self._missing: 8,
            self._doubled: 8,
            self._two_places: 6,
            self._oversized: 8,
            self._dying_key: 10,
            self._foreign_session: 8,
            self._foreign_id: 10,
            self._search: 14,
            self._lists: 6,
        }
        self._ways, self._weights = list(ways), list(ways.values())

    def next(self, number: int) -> Call:
        """The next request; its number goes along in the body, so that the upstream knows whose it is."""
        return self._rng.choices(self._ways, self._weights)[0](number)

    def _one(self) -> Owner:
        return self._rng.choice(self._owners)

    def _pair(self) -> tuple[Owner, Owner]:
        """Somebody and somebody else, often of the same name or the same tenant."""
        me = self._one()
        near = [one for one in self._owners if one is not me and (one.user == me.user or one.tenant == me.tenant)]
        return me, self._rng.choice(near if near and self._rng.random() < 0.7 else self._owners)

    def _question(self, of: Owner) -> str:
        if not of.questions or self._rng.random() < 0.6:
            return of.canary_question
        return self._rng.choice(of.questions)

    def _chat(
        self,
        kind: str,
        number: int,
        text: str,
        headers: Sequence[tuple[str, str]],
        sees: tuple[str, str, str] | None,
        statuses: frozenset[int] = SERVED,
        **members: Any,
    ) -> Call:
        mode = () if self._rng.random() < 0.1 else (("X-Memory-Mode", "read"),)
        body = {
            "model": "m",
            "max_tokens": 16,
            "messages": [{"role": "user", "content": text}],
            "metadata": {"n": str(number)},
            **members,
        }
        return Call(kind, "POST", "/v1/chat/completions", (*headers, *mode), body, sees, statuses)

    def _as(self, me: Owner, secret: str | None = None) -> list[tuple[str, str]]:
        return [
            ("Authorization", f"Bearer {secret or self._keys.any_user[me.tenant]}"),
            ("X-Memory-User", me.user),
            ("X-Memory-Project", me.project),
        ]

    def _true(self, number: int) -> Call:
        me = self._one()
        return self._chat("true", number, self._question(me), self._as(me), me.identity)

    def _asks_for_foreign(self, number: int) -> Call:
        me, other = self._pair()
        return self._chat("asks for what is foreign", number, self._question(other), self._as(me), me.identity)

    def _foreign_name(self, number: int) -> Call:
        """Names another tenant's user: under one's own key that is one's own tenant's user of that name."""
        me, other = self._pair()
        headers = [self._as(me)[0], ("X-Memory-User", other.user), ("X-Memory-Project", other.project)]
        extra = self._rng.choice((("X-Memory-Tenant", other.tenant), ("X-Tenant-Id", other.tenant), ("Host", "x")))
        sees = (me.tenant, other.user, other.project)
        return self._chat("names a foreign user", number, self._question(other), [*headers, extra], sees)

    def _fixed_key_names_another(self, number: int) -> Call:
        if not self._fixed:
            return self._true(number)
        me, other = self._rng.choice(self._fixed), self._one()
        headers = self._as(other, self._keys.fixed[me.number])
        same = (me.user, me.project) == (other.user, other.project)
        return self._chat(
            "a fixed key names another",
            number,
            self._question(other),
            headers,
            me.identity if same else None,
            SERVED if same else frozenset({403}),
        )

    def _forged_key(self, number: int) -> Call:
        me = self._one()
        real = self._keys.any_user[me.tenant]
        forged = self._rng.choice(
            (
                real[:-1] + ("A" if real[-1] != "A" else "B"),
                real[:20],
                real.upper(),
                f"{real}, Bearer {real}",
                "mp-00000000-" + "x" * 43,
                "' OR 1=1 --",
                "null",
            )
        )
        return self._chat("a forged key", number, self._question(me), self._as(me, forged), None, frozenset({400, 401}))

    def _missing(self, number: int) -> Call:
        me = self._one()
        headers = self._as(me)
        lacks = self._rng.randrange(3)
        if lacks == 0:
            return self._chat("no key", number, self._question(me), headers[1:], None, frozenset({401}))
        if lacks == 1:
            return self._chat(
                "no user", number, self._question(me), [headers[0], headers[2]], (me.tenant, "default", me.project)
            )
        return self._chat("no project", number, self._question(me), headers[:2], (me.tenant, me.user, "default"))

    def _doubled(self, number: int) -> Call:
        me, other = self._pair()
        # In another spelling aiohttp's client would send it in place of the first; test_identity_e2e.py sends both.
        again = self._rng.choice((("X-Memory-User", other.user), ("X-Memory-Project", other.project)))
        return self._chat(
            "a header twice", number, self._question(other), [*self._as(me), again], None, frozenset({400})
        )

    def _two_places(self, number: int) -> Call:
        me, other = self._pair()
        if me.user == other.user:
            return self._true(number)
        memory = {"user": other.user}
        return self._chat(
            "two places differ", number, self._question(other), self._as(me), None, frozenset({400}), memory=memory
        )

    def _oversized(self, number: int) -> Call:
        me, other = self._pair()
        value = self._rng.choice(
            (
                other.user + "a" * HEADER_BYTES_MAX,
                "%41" * (HEADER_BYTES_MAX + 1),
                "a" * 60_000,
                "%00" + other.user,
                "%ff%fe",
                other.user + "%",
            )
        )
        headers = [self._as(me)[0], ("X-Memory-User", value), ("X-Memory-Project", other.project)]
        taken = value == other.user + "%"  # a lone per cent is a name like any other
        sees = (me.tenant, value, other.project) if taken else None
        return self._chat(
            "an oversized or broken name",
            number,
            self._question(other),
            headers,
            sees,
            SERVED if taken else frozenset({400, 413, 431}),
        )

    def _dying_key(self, number: int) -> Call:
        me = self._one()
        headers = self._as(me, self._keys.dying[me.tenant])
        return self._chat(
            "a key that is revoked", number, self._question(me), headers, me.identity, frozenset({200, 401})
        )

    def _foreign_session(self, number: int) -> Call:
        me, other = self._pair()
        named = ("X-Memory-Session", json.dumps(other.lines[0]["session"])[1:-1].replace("\\", "%5C"))
        return self._chat(
            "a foreign session",
            number,
            self._question(other),
            [*self._as(me), named],
            me.identity,
            frozenset({200, 400}),
        )

    def _foreign_id(self, number: int) -> Call:
        me, other = self._pair()
        ids = self._ids.get(other.number, ())
        if not ids or me.identity == other.identity:
            return self._search(number)
        one, what = self._rng.choice(ids), self._rng.choice(("memories", "sessions", "retrievals"))
        method = self._rng.choice(("GET", "GET", "DELETE", "POST")) if what == "memories" else "GET"
        path = f"/memory/v1/{what}/{one}" + ("/share" if method == "POST" else "")
        body = {"to": "tenant"} if method == "POST" else None
        return Call("a foreign id", method, path, tuple(self._as(me)), body, me.identity, frozenset({403, 404}))

    def _search(self, number: int) -> Call:
        me, other = self._pair()
        body: dict[str, Any] = {"query": self._question(other), "k": self._rng.choice((10, 50, 200))}
        if number % 4 == 0:  # as an agent's tool asks: the same recall, behind another door
            path = "/memory/v1/tools/memory_search"
            tool = {**body, "k": min(50, body["k"])}
            return Call("a tool's search", "POST", path, tuple(self._as(me)), tool, me.identity, SERVED)
        return Call("a search", "POST", "/memory/v1/search", tuple(self._as(me)), body, me.identity, SERVED)

    def _lists(self, number: int) -> Call:
        me = self._one()
        path = self._rng.choice(
            ("/memory/v1/memories?limit=200", "/memory/v1/sessions", "/memory/v1/export", "/memory/v1/events")
        )
        return Call("a list or an export", "GET", path, tuple(self._as(me)), None, me.identity, SERVED)
