"""A simulator of vLLM's prefix cache: tokens and salt in, cached and created token counts out.

Chained blocks of `block_size` tokens; the salt stands before the first block and so enters the whole
chain; only full blocks count, and at least the last token of a prompt is computed again. Least
recently used blocks go when `blocks_max` is passed. It holds tokens only (their bytes or ids), no KV state.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

_Key = tuple[int | str, tuple[Hashable, ...]]


@dataclass(frozen=True, slots=True)
class CacheUse:
    """Tokens of one prompt that were in the cache, and tokens that it added to it."""

    cached: int
    created: int


class PrefixCache:
    def __init__(self, block_size: int, blocks_max: int) -> None:
        self._block_size = block_size
        self._blocks_max = blocks_max
        self._nodes: OrderedDict[_Key, int] = OrderedDict()
        self._next_node = 1
        self.queries = 0
        self.hits = 0

    def use(self, tokens: Sequence[Hashable], salt: str) -> CacheUse:
        """Look a prompt up, count query and hits (in tokens, as vLLM's metrics do), and store it."""
        found = self._store(tokens, salt, hits_max=(len(tokens) - 1) // self._block_size)
        cached = found * self._block_size
        self.queries += len(tokens)
        self.hits += cached
        return CacheUse(cached, len(tokens) // self._block_size * self._block_size - cached)

    def store(self, tokens: Sequence[Hashable], salt: str) -> None:
        """Store a prompt with its answer, which the next turn will find."""
        self._store(tokens, salt, hits_max=0)

    def reset(self) -> None:
        """Forget all blocks; the counters stay, as in vLLM."""
        self._nodes.clear()

    def _store(self, tokens: Sequence[Hashable], salt: str, hits_max: int) -> int:
        parent: int | str = salt
        found, unbroken = 0, True
        for start in range(0, len(tokens) - self._block_size + 1, self._block_size):
            key = (parent, tuple(tokens[start : start + self._block_size]))
            node = self._nodes.get(key)
            if node is None:
                unbroken = False
                node, self._next_node = self._next_node, self._next_node + 1
                self._nodes[key] = node
            else:
                self._nodes.move_to_end(key)
                found += unbroken and found < hits_max
            parent = node
        while len(self._nodes) > self._blocks_max:
            self._nodes.popitem(last=False)
        return found
