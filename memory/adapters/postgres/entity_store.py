"""People and things in Postgres: a scope and what is said of one in; who they are and what ties them out.

Each act is one transaction with its audit row, or nothing. Writers of a scope wait for one another on its version, so a
name that two would take at once, and a circle that two ties would close, are found. A merge is a pointer: what was
known of either stays where it is, and a split takes the pointer back. Raises NotFound, Conflict, TooLarge,
StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from memory.adapters.postgres.acting import acting
from memory.adapters.postgres.cursors import Order, cursor_of, read_cursor
from memory.adapters.postgres.database import Transaction
from memory.adapters.postgres.entity_learning import ENTITIES_MAX
from memory.adapters.postgres.entity_ties import (
    NONE,
    TieStore,
    everybody,
    locked_entity,
    require_acyclic_through,
    with_members,
)
from memory.adapters.postgres.entity_words import names_in, with_words
from memory.adapters.postgres.outbox import announce
from memory.adapters.postgres.own_memory import (
    add_next_version,
    is_made,
    only,
    require_turn,
    require_version,
    times_of,
    turn_memory,
)
from memory.adapters.postgres.rows import Place
from memory.audit import Note
from memory.entities import (
    Entity,
    Happening,
    NewEntity,
    Seen,
    Step,
    fingerprint,
    is_name,
)
from memory.errors import Conflict, TooLarge
from memory.model import Scope
from memory.stored import Page
from policies.entity import Told, Type

HISTORY_MAX: Final = 10_000


class EntityStore(TieStore):
    """The people and things of one store, and what ties them."""

    async def add(
        self,
        scope: Scope,
        subject_id: UUID,
        new: NewEntity,
        actor: str,
        *,
        now: datetime,
        note: Note,
        seen: Seen = everybody,
    ) -> Entity:
        """Keep one. Raises Conflict for a name that another has, which names whom of them is `seen`, TooLarge."""
        scope_id, witness = await self._scopes.ensure(scope), await self._audit.witness(note)
        place = Place(scope.tenant, scope_id, subject_id, new.entity_id, now)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            await _require_room(tx, scope, scope_id, 1, "name")
            if not new.namesake:
                await _require_free(tx, scope, scope_id, new.entity_id, new.told, seen)
            await self._add_card(tx, place, new.memory, changed)
            card_id = new.memory.memory_id
            row = (new.entity_id, scope_id, new.told.type, card_id)
            await tx.run("add_entity", scope.tenant, *row, *times_of(new.times, now))
            await _name(tx, scope, scope_id, new.entity_id, card_id, new.told)
            await _step(tx, place, new.entity_id, 1, "added", None, actor)
            await announce(tx, scope.tenant, scope_id, "created", [card_id], by="api", at=now)
            return only(await _by_id(tx, scope, scope_id, [new.entity_id]), NONE)

    async def change(
        self,
        scope: Scope,
        subject_id: UUID,
        version: int,
        new: NewEntity,
        actor: str,
        *,
        now: datetime,
        note: Note,
        seen: Seen = everybody,
    ) -> Entity:
        """The next version of one. Raises NotFound, Conflict: another version, a name that another has, as `add`."""
        scope_id, witness = await self._scopes.known(scope, NONE), await self._audit.witness(note)
        place = Place(scope.tenant, scope_id, subject_id, new.entity_id, now)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            known = await locked_entity(tx, scope, scope_id, new.entity_id)
            if known["card_id"] and await is_made(tx, place, known, known["card_id"], version, new.memory):
                return only(await _by_id(tx, scope, scope_id, [new.entity_id]), NONE)
            require_version(known, version, "entity")
            if not new.namesake:
                keeps = known["type"] == new.told.type
                await _require_free(tx, scope, scope_id, new.entity_id, new.told, seen, keeps=keeps)
            card_id = known["card_id"]
            if card_id is None:
                card_id = new.memory.memory_id
                await self._add_card(tx, place, new.memory, changed)
                await announce(tx, scope.tenant, scope_id, "updated", [card_id], by="api", at=now)
            else:
                embeds = self._add_embedding
                await add_next_version(tx, place, card_id, new.memory, changed=changed, add_embedding=embeds)
                await tx.run("drop_aliases", scope.tenant, new.entity_id, card_id)
            row = (new.entity_id, version + 1, new.told.type, card_id)
            await tx.run("change_entity", scope.tenant, *row, *times_of(new.times, now))
            await _name(tx, scope, scope_id, new.entity_id, card_id, new.told)
            await _step(tx, place, new.entity_id, version + 1, "changed", None, actor)
            return only(await _by_id(tx, scope, scope_id, [new.entity_id]), NONE)

    async def merge(
        self,
        scope: Scope,
        entity_id: UUID,
        into: UUID,
        actor: str,
        *,
        now: datetime,
        note: Note,
        seen: Seen = everybody,
    ) -> Entity:
        """Both are one from now on, which is called as `into` is. Raises NotFound, Conflict: two that cannot be one, or
        whose ties would close a circle where there can be none; it is named where its ties are `seen`.
        """
        if entity_id == into:
            raise Conflict("one cannot be merged into itself", param="into")
        scope_id, witness = await self._scopes.known(scope, NONE), await self._audit.witness(note)
        place = Place(scope.tenant, scope_id, entity_id, entity_id, now)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            locked = [await locked_entity(tx, scope, scope_id, one) for one in sorted((entity_id, into))]
            one, other = sorted(locked, key=lambda row: row["entity_id"] == into)
            if one["merged_into"] == into:  # it is done, and the answer never came
                return only(await _by_id(tx, scope, scope_id, [into]), NONE)
            if one["merged_into"] or other["merged_into"]:
                root = one["merged_into"] or other["merged_into"]
                raise Conflict(f"one of them is merged into {root}: merge that one, or split it first", param="into")
            if one["type"] != other["type"]:
                raise Conflict(f"{one['type']} and {other['type']} are not one: change the type first", param="into")
            await tx.run("merge_with_it", scope.tenant, entity_id, into)
            await tx.run("merge_entity", scope.tenant, entity_id, one["version"] + 1, into, now)
            await tx.run("merge_entity", scope.tenant, into, other["version"] + 1, None, now)
            await require_acyclic_through(tx, scope, scope_id, into, "into", seen)
            await _read_again(tx, scope, await with_members(tx, scope, [into]), changed)
            await _step(tx, place, entity_id, one["version"] + 1, "merged", into, actor)
            await _step(tx, place, into, other["version"] + 1, "took", entity_id, actor)
            return only(await _by_id(tx, scope, scope_id, [into]), NONE)

    async def split(self, scope: Scope, entity_id: UUID, actor: str, *, now: datetime, note: Note) -> Entity:
        """One that was merged stands for itself again, with those that had been merged into it by then. Raises
        NotFound, Conflict for one that was not.
        """
        scope_id, witness = await self._scopes.known(scope, NONE), await self._audit.witness(note)
        place = Place(scope.tenant, scope_id, entity_id, entity_id, now)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            known = await locked_entity(tx, scope, scope_id, entity_id)
            root = known["merged_into"]
            if root is None:
                raise Conflict("it is not merged into another; name the one that is")
            other = await locked_entity(tx, scope, scope_id, root)
            await tx.run("merge_entity", scope.tenant, entity_id, known["version"] + 1, None, now)
            await tx.run("merge_entity", scope.tenant, root, other["version"] + 1, None, now)
            await tx.run("merge_these", scope.tenant, await _came_with(tx, scope, entity_id, root), entity_id)
            await _read_again(tx, scope, await with_members(tx, scope, [entity_id]), changed)
            await _step(tx, place, entity_id, known["version"] + 1, "split", root, actor)
            await _step(tx, place, root, other["version"] + 1, "gave", entity_id, actor)
            return only(await _by_id(tx, scope, scope_id, [entity_id]), NONE)

    async def delete(
        self, scope: Scope, entity_id: UUID, actor: str, *, version: int | None = None, now: datetime, note: Note
    ) -> None:
        """Hide one, those that are merged into it, their cards and the ties made by hand, and do not learn it again.
        Raises NotFound, and Conflict for another `version`.
        """
        await self._hide(scope, entity_id, now, actor, now, note, version=version)

    async def undelete(
        self,
        scope: Scope,
        entity_id: UUID,
        actor: str,
        *,
        now: datetime,
        note: Note,
        may: Callable[[Entity], None],
        seen: Seen = everybody,
    ) -> Entity:
        """Bring it back, within 30 days. Raises NotFound, TooLarge, Conflict for a circle of its ties, a name that was
        taken since, or where the one that it is merged into is deleted, and what `may` does: then nothing changes.
        """
        return only(await self._hide(scope, entity_id, None, actor, now, note, may, seen=seen), NONE)

    async def _hide(
        self,
        scope: Scope,
        entity_id: UUID,
        at: datetime | None,
        actor: str,
        now: datetime,
        note: Note,
        may: Callable[[Entity], None] = lambda _: None,
        version: int | None = None,
        seen: Seen = everybody,
    ) -> list[Entity]:
        """What is shown again, none where it is hidden."""
        scope_id, witness = await self._scopes.known(scope, NONE), await self._audit.witness(note)
        place = Place(scope.tenant, scope_id, entity_id, entity_id, now)
        async with acting(self._database, scope.tenant, scope_id, witness) as (tx, changed):
            found = await tx.row("lock_entity", scope.tenant, scope_id, entity_id)
            known = require_turn(found, "entity", at, now)
            require_version(known, version, "entity")
            gone_at = known["deleted_at"]
            members = await tx.fetch("members_of_entity", scope.tenant, entity_id, gone_at)
            for row in (known, *members):
                await tx.run("mark_entity_deleted", scope.tenant, row["entity_id"], row["version"] + 1, at)
                what: Happening = "deleted" if at else "undeleted"
                await _step(tx, place, row["entity_id"], row["version"] + 1, what, None, actor)
            await _read_again(tx, scope, [row["entity_id"] for row in (known, *members)], changed)
            since = await _hidden_with(tx, scope, (known, *members), at, gone_at)
            for memory_id, hidden in since.items():
                await turn_memory(
                    tx, scope.tenant, scope_id, memory_id, hidden, gone_at=gone_at, changed=changed, now=now
                )
            back = await _by_id(tx, scope, scope_id, [entity_id]) if at is None else []
            for one in back:
                may(one)
                await _require_back(tx, scope, scope_id, one, gone_at, seen)
        return back

    # ------------------------------------------------------------ reading

    async def one(self, scope: Scope, entity_id: UUID) -> Entity:
        """One of them. Raises NotFound."""
        return only(await self.some(scope, [entity_id]), NONE)

    async def some(self, scope: Scope, entity_ids: Sequence[UUID]) -> list[Entity]:
        """Those of these that are there."""
        scope_id = await self._scopes.find(scope)
        if scope_id is None or not entity_ids:
            return []
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            return await _by_id(tx, scope, scope_id, entity_ids)

    async def named(
        self,
        scope: Scope,
        name: str,
        *,
        limit: int,
        cursor: str | None,
        types: Sequence[Type],
        order: Order = "desc",
    ) -> Page[Entity]:
        """Those of these types that have this name, each once; several where it is that of several."""
        scope_id, at = await self._scopes.find(scope), read_cursor(cursor, order)
        if scope_id is None:
            return Page((), None)
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            prints = [fingerprint(scope.tenant, scope_id, name)]
            named = await tx.fetch("entities_named", scope.tenant, scope_id, prints)
            roots = list({row["root"] for row in named if row["deleted_at"] is None})
            known = await tx.fetch("entities_by_id", scope.tenant, scope_id, roots)
            in_order = sorted((row for row in known if row["type"] in types), key=_place, reverse=order == "desc")
            rows = [row for row in in_order if (_place(row) < at if order == "desc" else _place(row) > at)]
            found = await with_words(tx, scope, scope_id, rows[:limit])
        return Page(tuple(found), cursor_of(*_place(rows[limit - 1])) if len(rows) > limit else None)

    async def page(
        self, scope: Scope, *, limit: int, cursor: str | None, types: Sequence[Type], order: Order = "desc"
    ) -> Page[Entity]:
        """Those of these types by when they came; merged ones are with the one they are merged into."""
        scope_id, at = await self._scopes.find(scope), read_cursor(cursor, order)
        if scope_id is None:
            return Page((), None)
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            query = "entities_newest" if order == "desc" else "entities_oldest"
            rows = await tx.fetch(query, scope.tenant, scope_id, *at, list(types), limit + 1)
            found = await with_words(tx, scope, scope_id, rows[:limit])
        last = rows[limit - 1] if len(rows) > limit else None
        return Page(tuple(found), cursor_of(last["created_at"], last["entity_id"]) if last else None)

    async def history(self, scope: Scope, entity_id: UUID) -> list[Step]:
        """How one became what it is, oldest first. Raises NotFound."""
        await self.one(scope, entity_id)
        scope_id = await self._scopes.known(scope, NONE)
        async with self._database.transaction(scope.tenant, [scope_id], read_only=True) as tx:
            found = await tx.fetch("history_of_entity", scope.tenant, entity_id, HISTORY_MAX)
        return [Step(row["version"], row["what"], row["other"], row["actor"], row["at"]) for row in found]


async def _by_id(tx: Transaction, scope: Scope, scope_id: int, entity_ids: Sequence[UUID]) -> list[Entity]:
    rows = await tx.fetch("entities_by_id", scope.tenant, scope_id, list(entity_ids))
    return await with_words(tx, scope, scope_id, rows)


def _place(row: Any) -> tuple[datetime, UUID]:
    """Where one stands in a list."""
    return row["created_at"], UUID(int=row["entity_id"].int)


async def _came_with(tx: Transaction, scope: Scope, entity_id: UUID, root: UUID) -> list[UUID]:
    """Of those that are merged into `root`, those that were merged into this one, or into one of these."""
    rows = await tx.fetch("merged_where", scope.tenant, root)
    came = [entity_id]
    for one in came:  # which grows by those that were merged into it
        came += [UUID(int=row["entity_id"].int) for row in rows if row["other"] == one]
    return came[1:]


async def _require_room(tx: Transaction, scope: Scope, scope_id: int, more: int, param: str) -> None:
    """So many more may be there. Raises TooLarge."""
    if await tx.value("count_entities", scope.tenant, scope_id, ENTITIES_MAX + 1) + more > ENTITIES_MAX:
        raise TooLarge(f"a scope has at most {ENTITIES_MAX} entities; delete some", param=param)


async def _hidden_with(
    tx: Transaction, scope: Scope, found: Sequence[Any], at: datetime | None, gone_at: datetime | None
) -> dict[UUID, datetime | None]:
    """The memories that are hidden with these, or shown again, and since when each is hidden from now on."""
    since: dict[UUID, datetime | None] = {row["card_id"]: at for row in found if row["card_id"]}
    for one in found:
        for row in await tx.fetch("ties_by_hand", scope.tenant, one["entity_id"]):
            if row["deleted_at"] == gone_at:  # hidden with this one, or not yet
                since[row["memory_id"]] = at or row["other_deleted_at"]
    return since


async def _require_back(
    tx: Transaction, scope: Scope, scope_id: int, one: Entity, gone_at: datetime, seen: Seen
) -> None:
    """One that was brought back may stand beside what came to be since. Raises Conflict, TooLarge."""
    await _require_room(tx, scope, scope_id, 0, "id")
    root = one.merged_into or one.entity_id
    if not await tx.fetch("entities_by_id", scope.tenant, scope_id, [root]):
        raise Conflict(f"it is merged into {root}, which is deleted: undelete that one", param="id")
    told = Told(one.name, one.type, one.aliases)
    await _require_free(tx, scope, scope_id, one.entity_id, told, seen, since=gone_at)
    await require_acyclic_through(tx, scope, scope_id, root, "id", seen)


async def _name(tx: Transaction, scope: Scope, scope_id: int, entity_id: UUID, card_id: UUID, told: Told) -> None:
    prints = {fingerprint(scope.tenant, scope_id, one) for one in (told.name, *told.aliases)}
    await tx.run_many("add_alias", ((scope.tenant, entity_id, one, card_id, scope_id) for one in sorted(prints)))


async def _require_free(
    tx: Transaction,
    scope: Scope,
    scope_id: int,
    entity_id: UUID,
    told: Told,
    seen: Seen,
    since: datetime | None = None,
    *,
    keeps: bool = False,
) -> None:
    """No other of its type has one of its names; those that had it `since` then may, and any the names that it `keeps`.
    Raises Conflict that says who, where that one is seen.
    """
    prints = [fingerprint(scope.tenant, scope_id, one) for one in (told.name, *told.aliases)]
    rows = await tx.fetch("entities_named", scope.tenant, scope_id, prints)
    mine = {row["root"] for row in rows if row["entity_id"] == entity_id} | {entity_id}
    kept = {row["fingerprint"] for row in rows if keeps and row["root"] in mine}
    had = frozenset() if since is None else await _had(tx, scope, scope_id, prints, since)
    taken = sorted(
        row["root"]
        for row in rows
        if row["root"] not in mine
        and row["fingerprint"] not in kept
        and row["deleted_at"] is None
        and row["type"] == told.type
        and (row["root"], row["fingerprint"]) not in had
    )
    if taken:
        shown = [str(one.entity_id) for one in await _by_id(tx, scope, scope_id, taken) if seen(one)]
        or_namesake = "" if since else ", or say `namesake` if they are two"
        raise Conflict(
            f"{shown[0]} has one of these names: change or merge that one{or_namesake}"
            if shown
            else f"another has one of these names: choose another{or_namesake}",
            param="name",
        )


async def _had(
    tx: Transaction, scope: Scope, scope_id: int, prints: Sequence[bytes], at: datetime
) -> frozenset[tuple[UUID, bytes]]:
    """Who of those that have one of these names had which of them at a moment."""
    rows = await tx.fetch("named_then", scope.tenant, scope_id, prints, at)
    return frozenset(
        (row["root"], row["fingerprint"])
        for row in rows
        if any(is_name(row["fingerprint"], scope.tenant, scope_id, one) for one in names_in(row))
    )


async def _read_again(tx: Transaction, scope: Scope, entity_ids: Sequence[UUID], changed: int) -> None:
    """Have hot scopes read again what names these: whom it names is another from now on."""
    naming = {row["memory_id"] for row in await tx.fetch("aliases_of_entities", scope.tenant, entity_ids)}
    await tx.run("changed_with", scope.tenant, sorted(naming), changed)


async def _step(
    tx: Transaction, place: Place, entity_id: UUID, version: int, what: Happening, other: UUID | None, actor: str
) -> None:
    await tx.run("add_entity_step", place.tenant, entity_id, version, place.scope_id, what, other, actor, place.now)
