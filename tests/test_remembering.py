"""What the ledger is told of one request, before its prompt goes upstream."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from time import perf_counter
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from memory.chain import chain
from memory.checkpoints import Restored
from memory.config import Settings
from memory.errors import StoreUnavailable
from memory.ids import new_id
from memory.model import Captured, IndexRow, Recall, Rung, Scope, SessionRef
from memory.read.candidates import as_candidate
from memory.read.conversation import CUT, RESTORE, Conversation, Marks
from memory.read.hot import item_of
from memory.read.items import Filter
from memory.read.ledger import Kept
from memory.read.restore import WHY, WHY_GIVEN
from memory.telemetry import Metrics
from policies.key_limits import NO_LIMITS, KeyLimits
from proxy.answering import Outcome
from proxy.asked import Asked, Remembered
from proxy.chat import ChatCompletions, Ready
from proxy.cutting import Cut, members_of
from proxy.identity import Ask, Credential
from proxy.prompt import Prompt, assemble, bare_prompt, limits_of, retrieval_record
from proxy.remembering import Remembering
from proxy.room import Room
from proxy.wire.chat_request import ChatRequest
from tests.product_ledger import RULES, Store, World
from tests.test_recall import row, unit

Messages = tuple[dict[str, Any], ...]
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL: Messages = (
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "rain"},
)
TALK: Messages = (
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "hello"},
    {"role": "user", "content": "weather?"},
)


AT = unit(1, 0, 0, 0)
QUESTION: Messages = ({"role": "user", "content": "What is my boat called?"},)


class Works:
    """Background work that is waited for."""

    def __init__(self) -> None:
        self.under_way: list[Awaitable[None]] = []

    def in_background(self, work: Awaitable[None]) -> None:
        """Take it on."""
        self.under_way.append(work)


def of(messages: Messages) -> tuple[ChatRequest, Prompt]:
    """A request, and its prompt with nothing placed."""
    chat = ChatRequest.parse(json.dumps({"messages": list(messages)}).encode())
    return chat, bare_prompt(chat, (), "empty", None, "full", None)


def parts_of(**given: object) -> SimpleNamespace:
    """What memory is read with: the defaults' settings and rules, and what is given."""
    return SimpleNamespace(**{"settings": Settings(), "rules": RULES, "models": None, "ledgers": None} | given)


async def told(messages: Messages, prompt: Prompt, chat: ChatRequest) -> dict[int, bytes]:
    """What the hot ledger has of each message when this prompt was noted."""
    world, works = World(), Works()
    parts = parts_of(ledgers=world.ledgers, capture=works)
    digests = tuple(chain(b"k" * 32, list(messages)))
    found = Conversation(SessionRef(new_id(), "s"), digests, None, False, None, False)
    asked = Asked(new_id(), datetime.now(UTC), 0.0, chat.body, chat, Ask(world.scope), None, cast(Any, None))
    Remembering(cast(Any, parts)).note(asked, chat, Remembered(found, Kept(), Recall()), prompt)
    for work in works.under_way:
        await work
    return {digests.index(cast(Any, digest)): value for (_, digest), value in world.hot.ledger.items()}


async def test_where_nothing_was_placed_is_told() -> None:
    chat, prompt = of(TALK)
    assert await told(TALK, prompt, chat) == {2: b""}


async def test_what_was_too_long_by_itself_decides_nothing() -> None:
    chat, prompt = of(TALK)
    assert await told(TALK, replace(prompt, fits=False), chat) == {}


@pytest.mark.parametrize("messages", [TALK[2:] + TOOL, TALK + TOOL], ids=["opening", "later"])
async def test_of_a_message_that_the_model_has_read_it_is_not_said_that_it_had_nothing(messages: Messages) -> None:
    chat, prompt = of(messages)
    assert await told(messages, prompt, chat) == {}


class Finds:
    """A recaller that finds one memory; an erasure is announced just behind that, of somebody `else_`'s."""

    def __init__(self, world: World, *, erased: bool, else_: bool = False) -> None:
        self.world, self.erased, self.tenant = world, erased, new_id() if else_ else world.scope.tenant

    def searched_by(self, text: str, _: object) -> str:
        """Its own words."""
        return text

    async def embed(self, *_: object) -> None:
        """No vector."""

    async def styles(self, *_: object) -> tuple[()]:
        """None."""
        return ()

    async def recall(self, *_: object) -> Recall:
        """The memory."""
        if self.erased:
            self.world.ledgers.let_go(self.tenant)
        return Recall((as_candidate(item_of(row("My boat is called Halcyon.", unit(1, 0, 0, 0)))),), "full")


def remembering_of(
    world: World, recaller: object, messages: Messages, works: Works
) -> tuple[Remembering, Asked, ChatRequest]:
    """What reads memory for a request, and the request."""
    chat = ChatRequest.parse(json.dumps({"messages": list(messages)}).encode())
    hot = SimpleNamespace(known_scope_ids=lambda scope: (), confirm=lambda scope: None)
    parts = parts_of(
        keys=world.keys, conversations=world.conversations, hot=hot, working=None, ledgers=world.ledgers,
        capture=works, recaller=recaller,
    )  # fmt: skip
    asking, credential = Ask(world.scope), Credential(world.scope.tenant)
    asked = Asked(new_id(), datetime.now(UTC), perf_counter(), chat.body, chat, asking, None, credential)
    return Remembering(cast(Any, parts)), asked, chat


@pytest.mark.parametrize(("erased", "else_"), [(False, False), (True, False), (True, True)])
async def test_what_was_recalled_before_something_was_erased_is_not_said_to_redis_behind_that(
    erased: bool, else_: bool
) -> None:
    world, works = World(), Works()
    remembering, asked, chat = remembering_of(world, Finds(world, erased=erased, else_=else_), QUESTION, works)
    has = await remembering.remember(asked, chat, "full")
    said = assemble(
        chat, has.recall, has.kept, Room(10_000), RULES, chain=has.conversation.digests[0], retrieval_id=new_id(),
        salt=None, may_place=True, opens=True,
    )  # fmt: skip
    assert len(said.newly_placed) == 1
    remembering.note(asked, chat, has, said)
    for work in works.under_way:
        await work
    assert bool(world.hot.ledger) is (else_ or not erased), "an erasure of another tenant's says nothing of it"


async def test_a_history_that_is_sent_again_is_not_read_again() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    history: Messages = (
        {"role": "user", "content": [picture]},
        *({"role": "assistant", "content": f"{at}"} for at in range(20)),
    )
    world = World()
    remembering, asked, _ = remembering_of(world, Finds(world, erased=False), history, Works())
    read = []
    for newest in ("And then?", "And now?"):
        messages = [*history, {"role": "user", "content": newest}]
        chat = ChatRequest.parse(json.dumps({"messages": messages}).encode())
        has = await remembering.remember(replace(asked, body=chat.body, chat=chat), chat, "full")
        assert has.conversation.digests == tuple(chain(await world.keys.chain_key(world.scope.tenant), messages))
        (part,) = cast(Any, chat.said[0])["content"]
        read.append("told" in vars(part))
    assert read == [True, False]


class Likes(Finds):
    """A recaller that knows how answers are liked."""

    async def styles(self, *_: object) -> Any:
        """In few words."""
        return (replace(as_candidate(item_of(row("The user prefers short answers.", AT))), section="persona"),)


async def test_how_answers_are_liked_is_told_beside_documents_that_redis_has_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()

    async def kept(*_: object) -> Kept:
        return Kept(given=True)

    async def given(*_: object, **__: object) -> Any:
        return (replace(as_candidate(item_of(row("The quay is closed.", AT))), section="given"),)

    monkeypatch.setattr(world.ledgers, "kept", kept)
    remembering, asked, chat = remembering_of(world, Likes(world, erased=False), QUESTION, Works())
    cast(Any, remembering)._parts.restorer = SimpleNamespace(given=given)
    has = await remembering.remember(asked, chat, "full")
    assert [one.section for one in has.restored.candidates] == ["given", "persona"]


async def test_how_answers_are_liked_is_told_to_a_new_conversation_that_its_client_opens_with_a_greeting() -> None:
    world, greeting = World(), {"role": "assistant", "content": "How can I help?"}
    remembering, asked, chat = remembering_of(world, Likes(world, erased=False), (greeting, *QUESTION), Works())
    has = await remembering.remember(asked, chat, "full")
    assert [one.section for one in has.restored.candidates] == ["persona"]


class Hangs(Finds):
    """A recaller whose search takes for ever; `vectors` are those that it was asked for."""

    def __init__(self, world: World) -> None:
        super().__init__(world, erased=False)
        self.vectors: list[asyncio.Future[None]] = []
        self.searches = asyncio.Event()

    async def embed(self, *_: object) -> Any:
        """A vector that never comes."""
        self.vectors.append(asyncio.get_running_loop().create_future())
        return self.vectors[-1]

    async def recall(self, *_: object) -> Recall:
        """Never."""
        self.searches.set()
        await asyncio.Event().wait()
        return Recall()


@pytest.mark.parametrize("when", ["before", "behind"])
async def test_who_leaves_while_the_store_fails_leaves_nothing_behind(
    when: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The reading of the ledger fails before its client leaves, or would behind that."""
    world, fails, ended = World(), asyncio.Event(), asyncio.Event()

    async def kept(*_: object) -> Kept:
        try:
            await fails.wait()
            raise StoreUnavailable("away")
        finally:
            ended.set()

    monkeypatch.setattr(world.ledgers, "kept", kept)
    hangs = Hangs(world)
    remembering, asked, chat = remembering_of(world, hangs, QUESTION, Works())
    reading = asyncio.create_task(remembering.remember(asked, chat, "full"))
    await hangs.searches.wait()
    if when == "before":
        fails.set()
        await ended.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    del reading
    await asyncio.sleep(0)
    assert ended.is_set()
    assert [vector.cancelled() for vector in hangs.vectors] == [False], "others may wait for the same search"
    gc.collect()
    assert not caplog.records


async def test_nobody_embeds_a_question_of_which_it_is_decided_already_what_stands_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    found = Conversation(
        SessionRef(new_id(), "s"), tuple(chain(b"k" * 32, list(TALK + TOOL))), None, False, None, False
    )

    async def find(*_: object) -> Conversation:
        return found

    monkeypatch.setattr(world.conversations, "find", find)
    hangs = Hangs(world)
    remembering, asked, chat = remembering_of(world, hangs, TALK + TOOL, Works())
    assert (await remembering.remember(asked, chat, "full")).recall == Recall()
    assert [vector.cancelled() for vector in hangs.vectors] == [True]


async def read_of(messages: Messages, rung: Rung, monkeypatch: pytest.MonkeyPatch, **found: Any) -> Remembered:
    """What memory has for a request that is begun at this rung, its conversation `found` so."""
    world, digests = World(), tuple(chain(b"k" * 32, list(messages)))
    opens = not any(one["role"] == "assistant" for one in messages)
    conversation = Conversation(SessionRef(new_id(), "s"), digests, None, opens, None, **{"fault": False, **found})

    async def find(*_: object) -> Conversation:
        return conversation

    monkeypatch.setattr(world.conversations, "find", find)
    remembering, asked, chat = remembering_of(world, Finds(world, erased=False), messages, Works())
    return await remembering.remember(asked, chat, rung)


@pytest.mark.parametrize("messages", [TALK + TOOL, TALK[:1] + TOOL], ids=["later", "opening"])
async def test_where_load_keeps_what_stands_from_a_prompt_that_is_said(
    messages: Messages, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await read_of(messages, "none", monkeypatch)).recall.reason == "overload"
    assert (await read_of(messages, "full", monkeypatch)).recall.reason is None


@pytest.mark.parametrize(
    ("messages", "found", "fault"),
    [
        (TALK, {"fault": True}, True),
        (TALK, {"fault": True, "named": True}, False),
        (TALK[:1], {"fault": True}, False),
        (TALK, {"is_new": True}, False),
    ],
    ids=["unknown", "named", "opening", "new"],
)
async def test_where_nobody_can_say_which_conversation_it_is_it_is_said_that_its_ledger_is_not_read(
    messages: Messages, found: dict[str, Any], fault: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await read_of(messages, "full", monkeypatch, **found)).kept.fault is fault


@pytest.mark.parametrize("role", ["system", "developer"])
async def test_a_question_with_instructions_behind_it_is_given_memory_like_any_other(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = (*TALK, {"role": role, "content": "Answer in one sentence."})
    world, works = World(), Works()
    digests = tuple(chain(b"k" * 32, list(messages)))
    found = Conversation(SessionRef(new_id(), "s"), digests, None, False, None, False)

    async def find(*_: object) -> Conversation:
        return found

    monkeypatch.setattr(world.conversations, "find", find)
    remembering, asked, chat = remembering_of(world, Finds(world, erased=False), messages, works)
    has = await remembering.remember(asked, chat, "full")
    assert [one.content for one in has.recall.candidates] == ["My boat is called Halcyon."]
    assert (await told(messages, of(messages)[1], chat)) == {2: b""}


LONG = tuple({"role": role, "content": "w" * 400} for _ in range(4) for role in ("user", "assistant"))


class SumsUp(Store):
    """Postgres that has a rolling summary of every conversation."""

    async def summary(self, tenant: UUID, scope_ids: Sequence[int], session_id: UUID) -> IndexRow | None:
        if not self.rows:
            told = row("They spoke of goats.", unit(1, 0, 0, 0), kind="summary")
            self.rows[told.memory_id] = told
        return next(iter(self.rows.values()))


class Narrow:
    """Served models with a window that the long talk does not fit; two characters are a token."""

    def window(self, model: str | None) -> int | None:
        return 1_510

    async def prompt_tokens(self, body: Mapping[str, Any], within_s: float | None = None) -> int | None:
        """An image costs few tokens, however long its data is."""
        texts = (one["content"] for one in body["messages"])
        return sum(len(text) // 2 if isinstance(text, str) else 40 for text in texts)


class LongTalk:
    """A conversation that does not fit and whose oldest turns may give way to their summary."""

    def __init__(self) -> None:
        self.world, self.works, self.session = World(), Works(), SessionRef(new_id(), "s")
        self.world.store = SumsUp()
        self.process()

    def process(self) -> None:
        """Go on in a process that has nothing of it at hand."""
        self.world.another_process()
        roomy = Settings().ledger.model_copy(update={"tokens_max_share": 0.5})
        settings = Settings().model_copy(update={"overflow": "summarise", "ledger": roomy})
        parts = parts_of(settings=settings, ledgers=self.world.ledgers, models=Narrow(), capture=self.works)
        self.remembering = Remembering(cast(Any, parts))

    async def sent(
        self, messages: Messages, ask: Ask, limits: KeyLimits = NO_LIMITS, *, unread: Kept | None = None, **more: Any
    ) -> tuple[ChatRequest, Prompt]:
        """One request of it and its prompt, of which the ledger is told. `unread`: what it has where it is not read."""
        body = {"model": "m", "max_tokens": 10, "messages": list(messages), **more}
        chat = ChatRequest.parse(json.dumps(body).encode())
        digests = tuple(chain(b"k" * 32, list(messages)))
        ledger = {place: value for (_, place), value in self.world.hot.ledger.items()}
        found = Conversation(self.session, digests, None, False, None, False, ledger=ledger)
        newest = None if chat.has_gone_on else chat.newest_user
        kept = unread or await self.world.ledgers.kept(
            ask.scope, found, chat.places(digests), newest, Filter(), datetime.now(UTC)
        )
        credential = Credential(ask.scope.tenant, limits=limits)
        asked = Asked(new_id(), datetime.now(UTC), perf_counter(), chat.body, chat, ask, None, credential)
        has = Remembered(found, kept, Recall())
        prompt = await self.remembering.assemble(asked, chat, has)
        self.remembering.note(asked, chat, has, prompt)
        for work in self.works.under_way:
            await work
        self.works.under_way.clear()
        return chat, prompt


async def summed_up_for(ask: Ask, limits: KeyLimits = NO_LIMITS) -> tuple[ChatRequest, Prompt]:
    """A talk that does not fit and its prompt."""
    return await LongTalk().sent((*LONG, {"role": "user", "content": "And now?"}), ask, limits)


async def test_what_does_not_fit_gives_way_to_its_summary() -> None:
    _, prompt = await summed_up_for(Ask(Scope(new_id())))
    assert (prompt.cuts, prompt.count, b"goats" in prompt.body) == (True, 1, True)


async def test_where_nothing_may_be_put_into_a_prompt_nothing_gives_way_to_a_summary() -> None:
    chat, prompt = await summed_up_for(Ask(Scope(new_id()), mode="write"))
    assert (prompt.body, prompt.cuts, prompt.count) == (chat.body, False, 0)


@pytest.mark.parametrize(
    ("budget", "limits"), [(0, NO_LIMITS), (None, KeyLimits(injected_tokens_max=0)), (120, NO_LIMITS)]
)
async def test_a_summary_is_newly_placed_memory_and_within_its_cap(budget: int | None, limits: KeyLimits) -> None:
    _, prompt = await summed_up_for(Ask(Scope(new_id()), budget=budget), limits)
    assert prompt.cuts
    assert prompt.tokens <= (budget or 0)


async def test_a_branch_that_does_not_fit_moves_nothing_in_another() -> None:
    talk, ask = LongTalk(), Ask(Scope(new_id()))
    one = (*LONG, {"role": "user", "content": "And now?"})
    apart = ({**said, "content": "v" * 400} for said in LONG[2:])
    other = (*LONG[:2], *apart, {"role": "user", "content": "And here?"})
    _, first = await talk.sent(one, ask)
    _, elsewhere = await talk.sent(other, ask)
    assert first.cuts and elsewhere.cuts
    on = ({"role": "assistant", "content": "Aye."}, {"role": "user", "content": "And then?"})
    for messages, before in ((one, first), (other, elsewhere)):
        _, then = await talk.sent((*messages, *on), ask)
        assert (then.cut, then.cuts) == (before.cut, False)
        assert then.placed[0].text == before.placed[0].text


async def test_a_cut_that_redis_has_lost_before_the_messages_around_it_is_not_made_a_second_time() -> None:
    """Its mark lives for a day from the cut; the entries of older messages are looked up anew and live on."""
    talk, ask = LongTalk(), Ask(Scope(new_id()))
    messages: Messages = (*LONG, {"role": "user", "content": "And now?"})
    _, first = await talk.sent(messages, ask)
    mark = (talk.session.session_id, CUT)
    talk.world.store.places[mark] = talk.world.hot.ledger.pop(mark)
    for digest in filter(None, chain(b"k" * 32, list(messages))):
        talk.world.hot.ledger.setdefault((talk.session.session_id, digest), b"")
    talk.process()
    messages = (*messages, {"role": "assistant", "content": "Aye."}, {"role": "user", "content": "w" * 400})
    _, then = await talk.sent(messages, ask)
    assert (then.cut, then.cuts) == (first.cut, False)
    assert talk.world.hot.ledger[mark] == talk.world.store.places[mark]


NOW_WHAT: Messages = ({"role": "user", "content": "And now?"},)
AND_ON: Messages = ({"role": "assistant", "content": "Aye."}, {"role": "user", "content": "And then?"})


async def test_a_cut_leaves_what_fits_however_few_tokens_its_characters_are() -> None:
    picture = [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 20_000}}]
    shown = ({"role": "user", "content": picture}, {"role": "assistant", "content": "A goat."})
    chat, prompt = await LongTalk().sent((*shown, *LONG, *NOW_WHAT), Ask(Scope(new_id())))
    left = await Narrow().prompt_tokens(members_of(chat, prompt.cut))
    assert left is not None and left <= 1_500
    assert prompt.cuts and prompt.fits


@pytest.mark.parametrize("most", [1_500, 1_510, 10**6])
async def test_an_answer_that_may_take_all_of_the_window_leaves_the_last_turns(most: int) -> None:
    talk, ask = LongTalk(), Ask(Scope(new_id()))
    turns = tuple({**said, "content": "w" * 100} for said in (*LONG, *LONG, *LONG))
    _, prompt = await talk.sent((*turns[:12], *NOW_WHAT), ask, max_tokens=most)
    assert (prompt.cut, prompt.cuts) == (None, False)
    _, prompt = await talk.sent((*turns, *NOW_WHAT), ask, max_tokens=most)
    assert prompt.cut == Cut(0, 18)


async def test_a_request_that_is_too_long_by_itself_cuts_nothing() -> None:
    talk, ask = LongTalk(), Ask(Scope(new_id()))
    instructs = {"role": "system", "content": "s" * 4_000}
    chat, prompt = await talk.sent((instructs, *LONG[:4], *NOW_WHAT), ask)
    assert (prompt.body, prompt.cuts) == (chat.body, False)
    assert (talk.session.session_id, CUT) not in talk.world.hot.ledger


@pytest.mark.parametrize("unread", [Kept(fault=True), Kept()], ids=["late", "overload"])
async def test_a_cut_stays_where_it_is_while_the_ledger_is_not_read(unread: Kept) -> None:
    talk, ask = LongTalk(), Ask(Scope(new_id()))
    messages: Messages = (*LONG, *NOW_WHAT)
    _, first = await talk.sent(messages, ask)
    messages = (*messages, {"role": "assistant", "content": "w" * 400}, *NOW_WHAT)
    _, then = await talk.sent(messages, ask, unread=unread)
    assert (then.cut, then.cuts) == (first.cut, False)


@pytest.mark.parametrize("behind", [TOOL, ()], ids=["read by the model", "sent before"])
async def test_a_message_of_which_it_is_decided_what_stands_there_is_given_the_summary_of_what_came_before_it(
    behind: Messages,
) -> None:
    talk, ask = LongTalk(), Ask(Scope(new_id()))
    messages: Messages = (*LONG[:2], {"role": "user", "content": "w" * 1_000})
    await talk.sent(messages, ask)
    await talk.sent(messages, ask)
    _, prompt = await talk.sent((*messages, *behind), ask, max_tokens=700)
    assert (prompt.cuts, prompt.cut) == (True, Cut(0, 2))
    assert "goats" in prompt.placed[0].text
    _, then = await talk.sent((*messages, *(behind or TOOL)), ask, max_tokens=700)
    assert (then.cuts, then.placed[0].text) == (False, prompt.placed[0].text)


async def test_a_branch_that_does_not_fit_moves_nothing_in_another_where_redis_has_lost_both() -> None:
    talk, ask = LongTalk(), Ask(Scope(new_id()))
    one: Messages = (*LONG, *NOW_WHAT)
    other: Messages = (*LONG[:2], *({**said, "content": "v" * 400} for said in LONG[2:]), *NOW_WHAT)
    _, first = await talk.sent(one, ask)
    mark = (talk.session.session_id, CUT)
    talk.world.store.places[mark] = talk.world.hot.ledger[mark]
    talk.world.hot.ledger.clear()
    talk.process()
    await talk.sent(other, ask)
    _, then = await talk.sent((*one, *AND_ON), ask)
    assert (then.cut, then.cuts) == (first.cut, False)


async def test_a_cut_is_stored_with_the_next_answer_where_the_request_that_made_it_had_none() -> None:
    talk, ask = LongTalk(), Ask(Scope(new_id()))
    messages: Messages = (*LONG, *NOW_WHAT)
    await talk.sent(messages, ask)  # vLLM is away: no exchange, no record
    _, again = await talk.sent(messages, ask)
    assert not again.cuts
    record = retrieval_record(
        again, retrieval_id=new_id(), query="", config_digest="", model="", exact=True, millis=0, now=datetime.now(UTC)
    )
    assert record.cut == talk.world.hot.ledger[talk.session.session_id, CUT]


async def test_what_stood_where_a_summary_is_placed_is_kept_and_no_new_memory() -> None:
    talk, ask = LongTalk(), Ask(Scope(new_id()), budget=300)
    boat = row("My boat is called Halcyon.", unit(1, 0, 0, 0))
    talk.world.store.rows = {one.memory_id: one for one in (row("They spoke of goats.", unit(1, 0, 0, 0)), boat)}
    first = LONG[:7]
    chat = ChatRequest.parse(json.dumps({"messages": list(first)}).encode())
    there = assemble(
        chat, Recall((as_candidate(item_of(boat)),), "full"), Kept(), Room(10_000), RULES,
        chain=chain(b"k" * 32, list(first))[-1], retrieval_id=new_id(), salt=None,
    ).newly_placed[0]  # fmt: skip
    await talk.world.ledgers.note(ask.scope, talk.session, {there.chain: there.entry}, {}, [])
    _, prompt = await talk.sent((*LONG, *NOW_WHAT), ask)
    assert (prompt.cut, "goats" in prompt.body.decode(), "Halcyon" in prompt.body.decode()) == (Cut(0, 6), True, True)
    assert (prompt.count, prompt.kept) == (1, 1)
    assert prompt.placed[0].new_ids == prompt.placed[0].memory_ids[:1]
    assert prompt.placed[0].new_tokens == prompt.tokens - there.tokens


class SumsUpLater(SumsUp):
    """Postgres that has no summary yet."""

    is_made = False

    async def summary(self, tenant: UUID, scope_ids: Sequence[int], session_id: UUID) -> IndexRow | None:
        return await super().summary(tenant, scope_ids, session_id) if self.is_made else None


async def test_a_summary_that_was_not_made_yet_when_a_conversation_was_cut_is_told_once_it_is() -> None:
    talk, ask = LongTalk(), Ask(Scope(new_id()))
    store = talk.world.store = SumsUpLater()
    talk.process()
    messages: Messages = (*LONG, *NOW_WHAT)
    _, first = await talk.sent(messages, ask)
    assert (first.cuts, first.count) == (True, 0)
    store.write(talk.session.session_id, chain(b"k" * 32, list(messages)), {})
    store.is_made = True
    _, shed = await talk.sent((*messages, AND_ON[0], *NOW_WHAT), ask, unread=Kept())
    assert shed.count == 0
    messages = (*messages, *AND_ON)
    _, then = await talk.sent(messages, ask)
    assert (then.cut, then.count, "goats" in then.body.decode()) == (first.cut, 1, True)
    _, on = await talk.sent((*messages, *AND_ON), ask)
    assert (on.count, on.body.decode().count("goats")) == (0, 1)
    assert on.placed[0].text == then.placed[0].text


@pytest.mark.parametrize(
    ("fits", "done"),
    [(("goal", "plan"), True), (("goal",), True), ((), False), (("persona",), False)],
    ids=["whole", "in part", "not at all", "a style alone"],
)
async def test_what_was_loaded_is_given_once_and_what_had_no_room_is_left_out(
    fits: tuple[str, ...], done: bool
) -> None:
    world, works = World(), Works()
    digests = tuple(chain(b"k" * 32, list(TALK)))
    found = Conversation(SessionRef(new_id(), "s"), digests, None, False, None, False)
    parts = {name: row(f"the {name}", unit(1, 0, 0, 0)) for name in ("goal", "plan", "given", "persona")}
    whys = {"goal": WHY, "plan": WHY, "given": WHY_GIVEN, "persona": "a style that the user prefers"}
    loaded = tuple(
        replace(as_candidate(item_of(part)), section=cast(Any, name), why=whys[name]) for name, part in parts.items()
    )
    placed = tuple(one for one in loaded if one.section in fits)
    chat = of(TALK)[0]
    rules = replace(RULES, limits=limits_of(Settings()))
    prompt = assemble(
        chat, Recall(rung="full"), Kept(), Room(10_000), rules, chain=digests[-1], retrieval_id=new_id(), salt=None,
        restored=Restored(placed),
    )  # fmt: skip
    works_for = parts_of(ledgers=world.ledgers, capture=works)
    asked = Asked(new_id(), datetime.now(UTC), 0.0, chat.body, chat, Ask(world.scope), None, cast(Any, None))
    has = Remembered(found, Kept(), Recall(), Restored(loaded, pending=True))
    Remembering(cast(Any, works_for)).note(asked, chat, has, prompt)
    for work in works.under_way:
        await work
    assert (world.hot.ledger.get((found.session.session_id, RESTORE)) == b"") is done


@pytest.mark.parametrize("as_of", [None, datetime(2026, 1, 1, tzinfo=UTC)])
async def test_what_was_loaded_waits_for_a_message_that_asks_as_of_now(as_of: datetime | None) -> None:
    loaded = (as_candidate(item_of(row("the goal", unit(1, 0, 0, 0)))),)

    async def pending(*_: object, **__: object) -> Restored:
        return Restored(loaded, pending=True)

    restorer, chat = SimpleNamespace(pending=pending), of(TALK)[0]
    remembering = Remembering(cast(Any, parts_of(restorer=restorer)))
    digests = tuple(chain(b"k" * 32, list(TALK)))
    found = Conversation(SessionRef(new_id(), "s"), digests, None, False, None, False)
    scope = Scope(new_id())
    ask, credential = Ask(scope, as_of=as_of), Credential(scope.tenant)
    asked = Asked(new_id(), datetime.now(UTC), perf_counter(), chat.body, chat, ask, None, credential)
    given = await remembering._restored(asked, chat, found, Marks(b"mark"), "full")
    assert given.candidates == (loaded if as_of is None else ())


class Captures(Works):
    """Capture that keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Captured] = []

    def where(self) -> str:
        """The queue."""
        return "queue"

    async def exchange(self, captured: Captured, *_: object) -> None:
        """Keep it."""
        self.kept.append(captured)


class Takes:
    """An upstream that takes what is sent to it."""

    async def send(self, _request: object, _body: bytes, _head: object, *, keep: Any, **_more: object) -> Outcome:
        """Answer 200."""
        outcome = Outcome(cast(Any, None), 200)
        await keep(outcome)
        return outcome


async def test_a_cut_is_stored_where_its_prompt_had_to_be_sent_again_without_its_blocks() -> None:
    talk, captures = LongTalk(), Captures()
    ask = Ask(talk.world.scope)
    chat, prompt = await talk.sent((*LONG, *NOW_WHAT), ask)
    assert prompt.cuts and prompt.placed
    unheard = SimpleNamespace(count=lambda *_, **__: None, look_at_answer=lambda *_: None)
    memory = parts_of(ledgers=talk.world.ledgers, capture=captures)
    parts = SimpleNamespace(
        settings=Settings(), config_digest="", embedding_model="", keys=talk.world.keys, memory=memory,
        capture=captures, metrics=Metrics(), cache_report=unheard, canaries=unheard, use=None,
    )  # fmt: skip
    digests = tuple(chain(b"k" * 32, [view.value for view in chat.messages]))
    found = Conversation(talk.session, digests, None, False, None, False)
    credential = Credential(ask.scope.tenant)
    asked = Asked(new_id(), datetime.now(UTC), perf_counter(), chat.body, chat, ask, None, credential)
    ready = Ready(asked, chat, found, 0.0, None, ())
    await ChatCompletions(cast(Any, parts))._send_without(cast(Any, None), cast(Any, Takes()), ready, prompt)
    for work in captures.under_way:
        await work
    (kept,) = captures.kept
    assert kept.retrieval is not None and not kept.retrieval.placed
    assert kept.retrieval.cut == talk.world.hot.ledger[talk.session.session_id, CUT]
