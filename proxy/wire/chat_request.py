"""A generation request as a typed view: body bytes -> what memory needs to know, and the body that goes upstream.

In: the body as received. Out: messages, query and options, each with its place in the text; and a new body that
differs only by what was asked: blocks at the head of user messages, the `memory` object gone, the `cache_salt` set.
Every other byte is the one received. Works for any generation route; without a readable `messages` list nothing can
be placed, the other edits still can. Refuses (JsonUnreadable) what is not one UTF-8 JSON object: the caller decides,
and must not forward it untouched where a tenant's cache_salt is owed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from memory.chain import Digest, message_text, with_attachments_read
from memory.json_spans import (
    Edit,
    Element,
    JsonObject,
    Member,
    apply_edits_to_body,
    decode_utf8,
    edit_members,
    is_true,
    json_string,
    parse_document,
    replace_value,
    without_surrogates,
)
from memory.placing import block_edit
from policies.brought import asked_in, instructs_errand, is_errand

EARLIER_TEXTS = 2
EARLIER_CHARACTERS = 250
"""Of what was said before a question, in characters from its end: a long answer would drown the question (a guess)."""

_MEMORY_KEY = re.compile(rb'"(?:m|\\u006[dD])(?:e|\\u0065)(?:m|\\u006[dD])(?:o|\\u006[fF])(?:r|\\u0072)(?:y|\\u0079)"')


@dataclass(frozen=True, slots=True)
class MessageView:
    """One element of `messages`: its raw form is text[start:end]. `role` is "" when it has none that is a string."""

    role: str
    value: object = field(repr=False)
    start: int
    end: int

    @property
    def takes_block(self) -> bool:
        """Whether a block can be put inside: a user message whose content is a string or a list of parts."""
        return (
            self.role == "user" and isinstance(self.value, dict) and isinstance(self.value.get("content"), (str, list))
        )

    @property
    def instructs(self) -> bool:
        """Whether it is no part of what was said but tells the model how to answer."""
        return self.role in ("system", "developer")


@dataclass(frozen=True)
class ChatRequest:
    """A body and where its parts stand. Properties read the last member of a key and are None for a wrong type; what a
    request asks again and again is read once.
    """

    body: bytes = field(repr=False)
    text: str = field(repr=False)
    root: JsonObject = field(repr=False)
    messages: tuple[MessageView, ...] = field(repr=False)

    @classmethod
    def parse(cls, body: bytes) -> "ChatRequest":
        """Read a body. Raises JsonUnreadable; odd messages raise nothing, they only cannot take a block."""
        text = decode_utf8(body)
        root = parse_document(text, split=("messages",))
        member = root.last("messages")
        views = (MessageView(_role(part.value), part.value, part.start, part.end) for part in _elements(member))
        return cls(body, text, root, tuple(views))

    def member(self, key: str) -> Member | None:
        """The top-level member that counts for that key, with its place."""
        return self.root.last(key)

    @cached_property
    def said(self) -> tuple[object, ...]:
        """The messages as the chain takes them."""
        return tuple(with_attachments_read(view.value) for view in self.messages)

    @property
    def model(self) -> str | None:
        return self._string("model")

    @property
    def user(self) -> str | None:
        return self._string("user")

    @property
    def safety_identifier(self) -> str | None:
        return self._string("safety_identifier")

    @property
    def cache_salt(self) -> str | None:
        return self._string("cache_salt")

    @property
    def stream(self) -> bool:
        return is_true(self._value("stream"))

    @property
    def continue_final_message(self) -> bool:
        return is_true(self._value("continue_final_message"))

    @property
    def echo(self) -> bool:
        """Whether the answer begins with what it goes on from."""
        return is_true(self._value("echo"))

    @property
    def n(self) -> int:
        """The number of choices asked for, 1 when not said."""
        return self._integer("n") or 1

    @property
    def max_tokens(self) -> int | None:
        """The most tokens the answer may have; `max_completion_tokens` goes before `max_tokens`, as in vLLM."""
        newer = self._integer("max_completion_tokens")
        return self._integer("max_tokens") if newer is None else newer

    @property
    def truncated_to(self) -> int | None:
        """The tokens that vLLM cuts the prompt down to; -1 for what the window has beside the answer."""
        return self._integer("truncate_prompt_tokens")

    @property
    def brings_tokens(self) -> bool:
        """Whether vLLM takes the prompt from token ids (of another that has prefilled it) and not from the messages."""
        given = self._value("kv_transfer_params")
        return isinstance(given, dict) and bool(given.get("prompt_token_ids"))

    @property
    def tools(self) -> Member | None:
        """The `tools` member with its place, when it is a list."""
        member = self.root.last("tools")
        return member if member is not None and isinstance(member.value, list) else None

    @property
    def memory(self) -> dict[str, object] | None:
        """The top-level `memory` object, the last of several. One that is not an object is not ours."""
        indices = self._memory_indices()
        value = self.root.members[indices[-1]].value if indices else None
        return value if isinstance(value, dict) else None

    @cached_property
    def newest_user(self) -> int | None:
        """The index in `messages` of the last user message."""
        return next(
            (index for index in reversed(range(len(self.messages))) if self.messages[index].role == "user"), None
        )

    @property
    def has_gone_on(self) -> bool:
        """Whether anything was said behind the newest user message, so that the model has read it: instructions, which
        some clients keep at the end, are not.
        """
        newest = self.newest_user
        return newest is not None and any(not view.instructs for view in self.messages[newest + 1 :])

    def places(self, digests: Sequence[Digest | None]) -> dict[int, Digest]:
        """Where a block may stand: the user messages that take one, by index, each with its chain digest."""
        both = enumerate(zip(self.messages, digests, strict=True))
        return {at: digest for at, (view, digest) in both if digest is not None and view.takes_block}

    @cached_property
    def query_text(self) -> str:
        """The last user message: what is asked; "" without text. Lone surrogates are U+FFFD: it can be encoded."""
        return _searchable(self.messages[self.newest_user]) if self.newest_user is not None else ""

    @cached_property
    def earlier_texts(self) -> tuple[str, ...]:
        """The ends of the last two texts said before it, oldest first: what a question may lean on. Of a user's without
        what a program brought.
        """
        spoken = (
            view for view in reversed(self.messages[: self.newest_user or 0]) if view.role in ("user", "assistant")
        )
        said = (asked_in(_searchable(view)) if view.role == "user" else _searchable(view) for view in spoken)
        texts = islice(filter(None, said), EARLIER_TEXTS)
        return tuple(text[-EARLIER_CHARACTERS:] for text in texts)[::-1]

    @cached_property
    def placeable(self) -> bool:
        """Whether new memory may be placed: in the newest user message, unless the model goes on with its own text, or
        with that message's, which its answer then begins with: the block would be a part of what was said. Nor in what
        a front-end asks for itself: a title would be made of it.
        """
        newest = self.newest_user
        if newest is None or not self.messages[newest].takes_block:
            return False
        adds = self._value("add_generation_prompt")
        is_echoed = self.echo and adds is not None and not is_true(adds)
        if self.messages[-1].role == "assistant" or self.continue_final_message or is_echoed:
            return False
        return not self.is_errand

    @cached_property
    def is_errand(self) -> bool:
        """Whether a front-end asks this for itself, in the newest user message or in what instructs the model first."""
        first = self.messages[0] if self.messages else None
        if first is not None and first.instructs and instructs_errand(_searchable(first)):
            return True
        return is_errand(self.query_text)

    def edited(
        self,
        blocks: Mapping[int, str],
        *,
        drop_memory: bool,
        cache_salt: str | None,
        left_out: tuple[int, int] | None = None,
    ) -> bytes:
        """The body with each block before the client's own text of the message at its index in `messages`, and without
        the messages from the first to the second index of `left_out`, the second excluded, but for what instructs.

        drop_memory removes every top-level `memory` object; a cache_salt takes the place of all the client sent.
        Returns the received bytes object itself when nothing changes. Raises ValueError for an index whose message
        does not take a block (ask `takes_block`): a block that silently vanished would be reported as injected.
        """
        edits = [self._block_edit(index, block) for index, block in blocks.items() if block]
        if left_out is not None:
            edits += self._left_out(*left_out)
        removed = set(self._memory_indices()) if drop_memory else set()
        appended: list[tuple[str, str]] = []
        if cache_salt is not None:
            raw = json_string(cache_salt)
            *earlier, last = self.root.indices("cache_salt") or [-1]
            removed.update(earlier)
            if last < 0:
                appended.append(("cache_salt", raw))
            elif self.root.members[last].value != cache_salt:
                edits.append(replace_value(self.root.members[last], raw))
        edits += edit_members(self.root, remove=removed, append=appended)
        return apply_edits_to_body(self.body, self.text, edits)

    def _block_edit(self, index: int, block: str) -> Edit:
        if not 0 <= index < len(self.messages) or not self.messages[index].takes_block:
            raise ValueError(f"message {index} does not take a block")
        return block_edit(self.text, self.messages[index].start, block)

    def _left_out(self, first: int, upto: int) -> list[Edit]:
        both = zip(self.messages[first:upto], self.messages[first + 1 : upto + 1], strict=True)
        return [Edit(view.start, behind.start, "") for view, behind in both if not view.instructs]

    def _memory_indices(self) -> list[int]:
        return [index for index in self.root.indices("memory") if isinstance(self.root.members[index].value, dict)]

    def _value(self, key: str) -> object:
        member = self.root.last(key)
        return None if member is None else member.value

    def _string(self, key: str) -> str | None:
        value = self._value(key)
        return value if isinstance(value, str) else None

    def _integer(self, key: str) -> int | None:
        value = self._value(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def mentions_memory(body: bytes) -> bool:
    """Whether a body can have a member called `memory` at all, spelled plainly or with escapes. Never a false no."""
    if b'"memory"' in body:
        return True
    return b"\\u00" in body and _MEMORY_KEY.search(body) is not None


def _elements(member: Member | None) -> tuple[Element, ...]:
    return member.elements if member is not None else ()


def _role(message: object) -> str:
    role = message.get("role") if isinstance(message, dict) else None
    return role if isinstance(role, str) else ""


def _searchable(message: MessageView) -> str:
    return without_surrogates(message_text(message.value)).strip()
