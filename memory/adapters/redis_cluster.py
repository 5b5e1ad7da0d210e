"""A client of a Redis or Valkey Cluster that looks anew for what was not where it had been.

redis-py asks the cluster for the place of each slot when it begins, and again once a single command has met a node that
is gone. A pipeline that meets one goes on asking it, and so does who subscribes, though a replica has long taken its
place. And who gives up waiting for that question ends it, and every connection with it, for all others.
Refuses to send anything twice: what failed is said, and what comes next finds the way.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from redis.asyncio import Connection, RedisCluster
from redis.asyncio.cluster import ClusterNode, ClusterPipeline, PipelineCommand
from redis.cluster import PRIMARY, get_node_name
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ConnectionError,
    MovedError,
    RedisClusterException,
    RedisError,
    TimeoutError,
)

Args = Sequence[str | bytes | int]
LOOK_PAUSE_S: Final = 1.0
"""Between two looks, while what is asked goes on failing."""
_AWAY: Final = (ConnectionError, TimeoutError, ClusterDownError, MovedError)
_UNKNOWN: Final = (RedisError, RedisClusterException, OSError)


def at(node: ClusterNode | None) -> Mapping[str, Any]:
    """What a command is told besides, to be sent to this node; nothing for a server that is alone."""
    return {} if node is None else {"target_nodes": node}


class Cluster(RedisCluster):
    """redis-py's client, for one event loop. `look_again` is for who has met a fault on a way of its own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(reinitialize_steps=0, **options)  # each slot that has moved is learnt by itself
        self._beginning: asyncio.Task[Any] | None = None
        self._looking: asyncio.Task[None] | None = None

    def connect_by(self, connection_class: type[Connection]) -> None:
        """Make connections of this kind, from the first."""
        self.connection_kwargs["connection_class"] = connection_class  # of nodes that are learnt of
        for node in self.startup_nodes:
            node.connection_class = connection_class

    async def initialize(self, *args: Any, **names: Any) -> Cluster:
        """Learn where things are, where it is not known: once for all who wait. Who gives up does not stop it."""
        if self._initialize:
            if self._beginning is None:
                self._beginning = asyncio.create_task(super().initialize(*args, **names))
                self._beginning.add_done_callback(self._has_begun)
            beginning = self._beginning
            await asyncio.wait([beginning])
            if beginning.cancelled():
                raise ConnectionError("closed")
            beginning.result()
        return self

    def _has_begun(self, beginning: asyncio.Task[Any]) -> None:
        self._beginning = None
        if not beginning.cancelled():
            beginning.exception()  # whoever still waits is told

    async def node_of(self, key: str) -> ClusterNode:
        """The primary that has a key, as far as is known."""
        await self.initialize()
        return self.nodes_manager.get_node_from_slot(self.keyslot(key))

    async def primaries(self) -> list[ClusterNode]:
        """All that are known."""
        await self.initialize()
        return self.get_primaries()

    async def nodes(self) -> list[ClusterNode]:
        """Primaries and replicas, all that are known."""
        await self.initialize()
        return self.get_nodes()

    async def ask_each(self, asked: Sequence[tuple[str, Args]], behind: Args) -> list[tuple[Any, Any]]:
        """The reply of each (key, command), and of `behind`, which follows on the same connection to the same node; an
        exception where it was refused. A key that has moved is such a refusal.
        """
        pipe: Any = self.pipeline()
        nodes = [await self.node_of(key) for key, _ in asked]
        for node, (_, command) in zip(nodes, asked, strict=True):
            pipe.execute_command(*command, **at(node))
        each = tuple(dict.fromkeys(nodes))
        for node in each:
            pipe.execute_command(*behind, **at(node))
        replies = await pipe.execute(raise_on_error=False, allow_redirections=False)
        said = dict(zip(each, replies[len(asked) :], strict=True))
        return [(reply, said[node]) for reply, node in zip(replies, nodes, strict=False)]

    async def _execute_command(self, target_node: ClusterNode, *args: Any, **kwargs: Any) -> Any:
        """In place of redis-py's, which sends ASKING and what is asked over two connections, knows no node that has no
        slot yet, and closes every connection where the cluster is down.
        """
        try:
            try:
                return await target_node.execute_command(*args, **kwargs)
            except MovedError as there:
                await self.nodes_manager.move_slot(there)
                return await self.nodes_manager.get_node_from_slot(there.slot_id).execute_command(*args, **kwargs)
        except MovedError:
            self.look_again()
            raise
        except AskError as there:
            return await self._ask_there(there, args, kwargs)
        except BaseException as fault:
            if isinstance(fault, asyncio.CancelledError | ConnectionError | TimeoutError | ClusterDownError):
                self.look_again()
            raise

    async def _ask_there(self, there: AskError, args: Args, kwargs: Mapping[str, Any]) -> Any:
        """Where a slot is on its way to; it answers for that only to who says ASKING."""
        nodes = self.nodes_manager
        if (node := nodes.get_node(host=there.host, port=there.port)) is None:
            node = ClusterNode(there.host, there.port, PRIMARY, **self.connection_kwargs)
            nodes.set_nodes(nodes.nodes_cache, {node.name: node})
        both = [PipelineCommand(0, "ASKING"), PipelineCommand(1, *args, **kwargs)]
        await node.execute_pipeline(both)
        if isinstance(both[1].result, Exception):
            raise both[1].result
        return both[1].result

    def look_again(self) -> asyncio.Task[None]:
        """Ask the cluster where things are now, beside what goes on; it ends when the next may be asked for."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return self._looking

    async def _look(self) -> None:
        with suppress(*_UNKNOWN):  # the next fault asks again, another node
            if await self._has_changed():
                await self.nodes_manager.initialize()  # has every connection made anew
        await asyncio.sleep(LOOK_PAUSE_S)

    async def _has_changed(self) -> bool:
        """Whether some node says that slots lie elsewhere than where they are asked for. Where nothing is known yet the
        next command asks.
        """
        if not (nodes := self.get_nodes()):
            return False
        asked, known = random.choice(nodes), self.nodes_manager.slots_cache
        for first, last, (host, port, *_), *_ in await asked.execute_command("CLUSTER SLOTS"):
            name = get_node_name((host or b"").decode() or asked.host, port)
            if any(known[slot][0].name != name for slot in (first, last)):
                return True
        return False

    def pipeline(self, transaction: Any = None, shard_hint: Any = None) -> ClusterPipeline:
        """Commands in one round trip to each node that they concern."""
        return _Pipeline(self, transaction)  # type: ignore[abstract]  # as redis-py makes its own

    async def aclose(self) -> None:
        """Close every connection: redis-py leaves them open where it means to ask for the slots anew."""
        for task in (self._beginning, self._looking):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        await super().aclose()
        await self.nodes_manager.aclose()
        await self.nodes_manager.aclose("startup_nodes")


class _Pipeline(ClusterPipeline):
    def __init__(self, cluster: Cluster, transaction: Any) -> None:
        super().__init__(cluster, transaction)
        self._cluster = cluster

    async def execute(self, raise_on_error: bool = True, allow_redirections: bool = True) -> list[Any]:
        """As redis-py's; has the client look again after a fault, or where the caller has given up waiting."""
        replies: list[Any] = []
        try:
            replies = await super().execute(raise_on_error, allow_redirections)
        except BaseException:
            self._cluster.look_again()
            raise
        if any(isinstance(reply, _AWAY) for reply in replies):
            self._cluster.look_again()
        return replies
