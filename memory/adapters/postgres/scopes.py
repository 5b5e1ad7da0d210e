"""Scopes: the four names of an identity in, scope ids and versions out.

Ids are held in process (they never change), at most CACHE_SCOPES_MAX of them. Raises StoreUnavailable.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from memory.adapters.postgres.database import Database
from memory.errors import NotFound, StoreUnavailable
from memory.model import Scope, ScopeId, ScopeVersion

CACHE_SCOPES_MAX: Final = 50_000


class Scopes:
    """The scopes of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ids: OrderedDict[Scope, ScopeId] = OrderedDict()
        self._named: dict[int, Scope] = {}  # an id is one scope's, in all tenants
        self._drops = 0  # what was read across one is not kept
        # Erased by another process, whose word was not heard here: the next write makes the scope anew.
        database.refused.append(self.drop_ids)

    async def find(self, scope: Scope) -> ScopeId | None:
        """The id of a scope that has been written to, else None."""
        known = self._ids.get(scope)
        if known is not None:
            self._ids.move_to_end(scope)
            return known
        drops = self._drops
        async with self._database.transaction(scope.tenant, read_only=True) as tx:
            return self._remember(scope, await tx.value("find_scope", *_names(scope)), drops)

    async def known(self, scope: Scope, otherwise: str) -> ScopeId:
        """The same; raises NotFound in these words where there is none."""
        found = await self.find(scope)
        if found is None:
            raise NotFound(otherwise)
        return found

    async def ensure(self, scope: Scope) -> ScopeId:
        """The id of a scope, made when it is new."""
        known = await self.find(scope)
        if known is None:
            drops = self._drops
            async with self._database.transaction(scope.tenant) as tx:
                await tx.run("add_scope", *_names(scope))
                made = await tx.value("find_scope", *_names(scope))
            known = self._remember(scope, made, drops)  # not before it is committed
        if known is None:
            raise StoreUnavailable("a scope was stored and is not there")
        return known

    async def visible(self, scope: Scope) -> tuple[ScopeVersion, ...]:
        """Every scope this identity may see, with its version now; empty for one that nothing was stored for."""
        async with self._database.transaction(scope.tenant, read_only=True) as tx:
            rows = await tx.fetch("visible_scopes", *_names(scope))
        return tuple(ScopeVersion(**row) for row in rows)

    def drop(self, scope: Scope) -> None:
        """Forget an id: its scope was erased elsewhere."""
        self._let_go(scope)
        self._drops += 1

    def drop_ids(self, tenant: UUID, scope_ids: Sequence[int]) -> None:
        """Forget these ids: their scopes were erased elsewhere."""
        for scope in [self._named.get(scope_id) for scope_id in scope_ids]:
            if scope is not None and scope.tenant == tenant:
                self._let_go(scope)
        self._drops += 1

    def _remember(self, scope: Scope, found: int | None, drops: int) -> ScopeId | None:
        if found is None:
            return None
        if drops != self._drops:
            return ScopeId(found)
        self._let_go(scope)
        self._ids[scope] = ScopeId(found)
        self._named[found] = scope
        while len(self._ids) > CACHE_SCOPES_MAX:
            self._let_go(next(iter(self._ids)))
        return ScopeId(found)

    def _let_go(self, scope: Scope) -> None:
        known = self._ids.pop(scope, None)
        if known is not None:
            self._named.pop(known, None)


def _names(scope: Scope) -> tuple[object, str, str, str]:
    return scope.tenant, scope.user, scope.project, scope.agent
