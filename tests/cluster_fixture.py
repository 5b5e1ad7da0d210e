"""A real cluster for tests: three primaries, with a replica each where asked for; nodes stop, die and come back.

A node is thought dead after two seconds, and its replica takes its place about as long after.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Connection
from redis.crc import key_slot
from redis.exceptions import RedisError

from tests.valkey_fixture import ValkeyServer, free_port

PRIMARIES = 3
SLOTS = 16_384
SETTLED_S = 60.0


class Node(ValkeyServer):
    """A server of a cluster, which tests speak to."""

    def __init__(self, directory: Path, port: int) -> None:
        super().__init__(directory, port=port, cluster=True)

    def ask(self, *command: Any) -> Any:
        """What this node says."""
        connection = Connection(port=self.port, socket_timeout=5)  # type: ignore[no-untyped-call]
        try:
            connection.send_command(*command)  # type: ignore[no-untyped-call]
            return connection.read_response()
        finally:
            connection.disconnect()  # type: ignore[no-untyped-call]

    @property
    def name(self) -> str:
        """What the cluster calls it."""
        return str(self.ask("CLUSTER MYID").decode())

    def follows(self, primary: Node) -> bool:
        """Whether it is a replica of that one."""
        role, _, port, *_ = self.ask("ROLE")
        return bool(role == b"slave" and port == primary.port)

    def ports(self) -> list[int]:
        """Those of all primaries, as it tells them."""
        return [port for _, _, (_, port, *_), *_ in self.ask("CLUSTER SLOTS")]

    @property
    def is_primary(self) -> bool:
        """Whether it thinks itself one."""
        return bool(self.ask("ROLE")[0] == b"master")


class Cluster:
    """Some primaries that share the slots, and their replicas behind them in the same order."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes

    @property
    def url(self) -> str:
        """What a client is told: one node, which tells of the others."""
        return self.url_of(self.nodes[0])

    @staticmethod
    def url_of(*nodes: Node) -> str:
        """The same, by these nodes."""
        return f"redis+cluster://{','.join(f'127.0.0.1:{node.port}' for node in nodes)}"

    def primary_of(self, key: str) -> Node:
        """The primary that has a key now."""
        slot = key_slot(key.encode())
        asked = next(node for node in self.nodes if _says_ok(node))
        for first, last, (_, port, *_), *_ in asked.ask("CLUSTER SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == port)
        raise AssertionError(f"nobody has the slot {slot}")

    def keys(self) -> set[bytes]:
        """Every key of every primary."""
        return {key for node in self.nodes if node.is_primary for key in node.ask("KEYS", "*")}

    def flush(self) -> None:
        """Make it empty."""
        for node in self.nodes:
            if node.is_primary:
                node.ask("FLUSHALL")

    def knows_all(self, node: Node) -> bool:
        """Whether it has met all nodes; if not, it is told of the first: on a busy machine a word may get lost."""
        met = bool(node.ask("CLUSTER NODES").count(b" connected") == len(self.nodes))
        if not met:
            node.ask("CLUSTER MEET", "127.0.0.1", self.nodes[0].port)
        return met

    def move_slot(self, key: str, behind: Node, *, leave: bool = False) -> Callable[[], None]:
        """Move the slot of a key, with all in it, to another primary; with `leave` what is called then ends it: until
        then the slot is on its way, and its keys are where they were.
        """
        slot, before = key_slot(key.encode()), self.primary_of(key)
        behind.ask("CLUSTER SETSLOT", slot, "IMPORTING", before.name)
        before.ask("CLUSTER SETSLOT", slot, "MIGRATING", behind.name)

        def end() -> None:
            while names := before.ask("CLUSTER GETKEYSINSLOT", slot, 100):
                before.ask("MIGRATE", "127.0.0.1", behind.port, "", 0, 5000, "KEYS", *names)
            for node in (behind, before):
                node.ask("CLUSTER SETSLOT", slot, "NODE", behind.name)

        if not leave:
            end()
        return end

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds."""
        deadline = time.monotonic() + SETTLED_S
        while not _holds(holds):
            assert time.monotonic() < deadline, "the cluster does not settle"
            time.sleep(0.02)


def _says_ok(node: Node) -> bool:
    return _holds(lambda: b"cluster_state:ok" in node.ask("CLUSTER INFO"))


def _holds(holds: Callable[[], bool]) -> bool:
    try:
        return holds()
    except (OSError, RedisError):
        return False


def _started(directory: Path) -> Node:
    """A node that runs. A port that was free may have been taken by another test when the server asks."""
    directory.mkdir()
    for left in reversed(range(5)):
        node = Node(directory, free_port())
        try:
            node.start()
            break
        except RuntimeError as fault:
            node.stop()
            if not left or "Address already in use" not in str(fault):
                raise
    return node


@contextmanager
def running_cluster(*, replicas: bool) -> Iterator[Cluster]:
    """A cluster that serves."""
    place = Path(tempfile.mkdtemp(prefix="vk-", dir="/tmp"))
    nodes: list[Node] = []
    try:
        nodes += (_started(place / str(number)) for number in range(PRIMARIES * (1 + replicas)))
        cluster = Cluster(nodes)
        for number, node in enumerate(nodes):
            node.ask("CLUSTER SET-CONFIG-EPOCH", number + 1)
            if number < PRIMARIES:
                first, behind = (SLOTS * part // PRIMARIES for part in (number, number + 1))
                node.ask("CLUSTER ADDSLOTSRANGE", first, behind - 1)
        cluster.until(lambda: all([cluster.knows_all(node) for node in nodes]))
        for primary, replica in zip(nodes, nodes[PRIMARIES:], strict=False):
            replica.ask("CLUSTER REPLICATE", primary.name)
        cluster.until(lambda: all(map(_says_ok, nodes)))
        cluster.until(lambda: all(b"link_status:up" in node.ask("INFO replication") for node in nodes[PRIMARIES:]))
        yield cluster
    finally:
        for node in nodes:
            node.stop()
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def added_to(cluster: Cluster) -> Iterator[Node]:
    """One more primary, which has no slot."""
    node = _started(cluster.nodes[0].directory.parent / "new")
    try:
        cluster.nodes.append(node)
        cluster.until(lambda: all([cluster.knows_all(each) for each in cluster.nodes]))
        cluster.until(lambda: _says_ok(node))
        yield node
    finally:
        node.stop()


@pytest.fixture(scope="session")
def _three() -> Iterator[Cluster]:
    with running_cluster(replicas=False) as cluster:
        yield cluster


@pytest.fixture
def cluster(_three: Cluster) -> Iterator[Cluster]:
    """An empty cluster of three primaries, the same for all tests: it is left as it was found, but for its keys."""
    _three.flush()
    yield _three


@pytest.fixture
def replicated_cluster() -> Iterator[Cluster]:
    """One of a test's own, of three primaries and a replica of each."""
    with running_cluster(replicas=True) as cluster:
        yield cluster
