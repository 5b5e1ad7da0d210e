"""Which conversation a request belongs to, by its messages alone (DESIGN section 5)."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from memory.chain import Digest, chain, extend
from memory.errors import QueueUnavailable, StoreUnavailable
from memory.ids import new_id
from memory.model import Scope, SessionRef
from memory.read.conversation import ERASURES_KNOWN, Asked, Conversation, Conversations, Hot
from memory.read.dropped import Joint, known_by

KEY = b"k" * 32
SCOPE = Scope(new_id(), "u", "p", "a")


@dataclass
class MemoryHot:
    """Hot state in a dict: what Redis does, without Redis."""

    answers: dict[tuple[bytes, bytes], SessionRef] = field(default_factory=dict)
    openings: dict[tuple[bytes, bytes], tuple[SessionRef, bool]] = field(default_factory=dict)
    pairs: dict[tuple[bytes, Digest], Joint] = field(default_factory=dict)
    broken: bool = False
    slow: bool = False  # what is asked comes too late; what is kept is kept

    async def joints(self, scope: Scope, scope_key: bytes, pairs: Sequence[Digest]) -> Mapping[Digest, Joint]:
        return {one: self.pairs[scope_key, one] for one in pairs if (scope_key, one) in self.pairs}

    async def find(self, scope: Scope, scope_key: bytes, asked: Asked) -> Hot:
        if self.broken or self.slow:
            raise QueueUnavailable("away")
        known = self.openings.get((scope_key, asked.opening)) if asked.opening else None
        sessions: dict[bytes, SessionRef] = {
            d: self.answers[scope_key, d] for d in asked.answers if (scope_key, d) in self.answers
        }
        return Hot(sessions, known[0] if known else None, bool(known and known[1]), {})

    async def keep(
        self,
        scope: Scope,
        scope_key: bytes,
        answers: Sequence[bytes],
        opening: bytes | None,
        opens: bool,
        ref: SessionRef,
        pairs: Mapping[Digest, Joint],
    ) -> None:
        for digest in answers:
            self.answers[scope_key, digest] = ref
        self.pairs |= {(scope_key, pair): joint for pair, joint in pairs.items()}
        if opening:
            self.openings[scope_key, opening] = (ref, not opens)


@dataclass
class MemoryStore:
    """The store's memory of sessions, in a dict."""

    sessions: dict[bytes, SessionRef] = field(default_factory=dict)
    broken: bool = False
    hangs: bool = False
    behind: bool = False  # what is said now is not stored yet
    copies: bool = False

    async def session_of_chains(self, scope: Scope, digests: Sequence[bytes]) -> Mapping[bytes, SessionRef]:
        if self.broken:
            raise StoreUnavailable("away")
        if self.hangs:
            await asyncio.Event().wait()
        return {d: self.sessions[d] for d in digests if d in self.sessions}

    async def has_copies(self, scope: Scope) -> bool:
        return self.copies


def said(*texts: str) -> list[dict[str, str]]:
    """Messages, user and assistant in turn."""
    return [{"role": "user" if i % 2 == 0 else "assistant", "content": text} for i, text in enumerate(texts)]


class Client:
    """A conversation with the proxy: asks, is answered, remembers."""

    def __init__(self) -> None:
        self.hot, self.store = MemoryHot(), MemoryStore()
        self.conversations = Conversations(self.hot, self.store)

    async def ask(
        self, messages: list[dict[str, str]], answer: str, label: str | None = None, *, late: bool = False
    ) -> Conversation:
        digests = tuple(chain(KEY, messages))
        if late:
            found = self.conversations.unrecognised(SCOPE, KEY, label, messages, digests, ())
        else:
            found = await self.conversations.find(SCOPE, KEY, label, messages, digests, ())
        message = {"role": "assistant", "content": answer}
        digest = extend(KEY, found.tip, message)
        known = known_by(KEY, messages[-1], message) if found.tip else []
        pairs = {pair: Joint(found.session, found.tip, digest) for pair in known if found.tip}
        if not self.hot.broken:
            await self.conversations.remember(SCOPE, KEY, found, [digest], pairs)
        if not self.store.behind:
            self.store.sessions[digest] = self.home(messages, found)
        return found

    def home(self, messages: list[dict[str, str]], found: Conversation) -> SessionRef:
        """Where the write path stores it: where its history is, unless it was named."""
        sent = [d for m, d in zip(messages, found.digests, strict=True) if d and m["role"] == "assistant"]
        known = [self.store.sessions[digest] for digest in sent if digest in self.store.sessions]
        return known[-1] if known and not found.named else found.session

    def elsewhere(self) -> None:
        """From now on another process is asked."""
        self.conversations = Conversations(self.hot, self.store)


async def test_the_next_turn_finds_its_session() -> None:
    client = Client()
    first = await client.ask(said("hi"), "hello")
    second = await client.ask(said("hi", "hello", "how are you"), "well")
    third = await client.ask(said("hi", "hello", "how are you", "well", "good"), "yes")
    assert first.session == second.session == third.session


async def test_two_conversations_that_begin_with_the_same_words_stay_two() -> None:
    client = Client()
    one = await client.ask(said("hi"), "hello")
    await client.ask(said("hi", "hello", "my cat is ill"), "oh")
    two = await client.ask(said("hi"), "hello")
    later_two = await client.ask(said("hi", "hello", "my dog is well"), "fine")
    later_one = await client.ask(said("hi", "hello", "my cat is ill", "oh", "it died"), "sorry")
    assert one.session != two.session
    assert later_two.session == two.session
    assert later_one.session == one.session


async def test_the_same_opening_again_is_another_attempt_while_nobody_went_on() -> None:
    client = Client()
    one = await client.ask(said("hi"), "hello")
    again = await client.ask(said("hi"), "hey there")
    assert one.session == again.session


async def test_a_first_answer_of_which_its_client_has_less_than_was_sent_is_gone_on_from() -> None:
    client = Client()
    first = await client.ask(said("tell me of boats"), "A boat is a vessel that")
    second = await client.ask(said("tell me of boats", "A boat is a", "and of ships?"), "larger")
    third = await client.ask(said("tell me of boats", "A boat is a", "and of ships?", "larger", "thanks"), "aye")
    assert first.session == second.session == third.session
    assert not second.is_new
    again = await client.ask(said("tell me of boats", "No boat", "why?"), "so")
    assert again.session != first.session, "somebody has gone on from it"


def changed(texts: tuple[str, ...]) -> list[dict[str, str]]:
    """A history whose client puts something of its own behind each answer."""
    return [{**one, "content": one["content"] + " [1]"} if one["role"] == "assistant" else one for one in said(*texts)]


@pytest.mark.parametrize("dropped", [0, 2, 4])
async def test_a_client_that_changes_every_answer_stays_in_its_conversation_however_far_behind_the_store_is(
    dropped: int,
) -> None:
    client = Client()
    client.store.behind = True
    whole = [f"this is what was said at place {number}, at some length" for number in range(12)]
    first = await client.ask(said(whole[0]), whole[1])
    for turn in range(1, 6):
        texts = tuple(whole[: 2 * turn + 1])
        history = changed(texts)[dropped if turn > 3 else 0 :]
        found = await client.ask(history, whole[2 * turn + 1])
        assert found.session == first.session, turn
        assert found.digests[-1] == chain(KEY, changed(texts))[-1], turn
    other = await client.ask(said(whole[0], "another answer", whole[2], "and another", "so?"), "aye")
    assert other.session != first.session


async def test_a_client_that_changes_every_answer_stays_where_it_is_when_the_same_is_said_again() -> None:
    client, again = Client(), ("please run all of the tests again", "all of the tests have passed")
    texts = ("hi", "hello", *again, *again, "so?", "aye")
    for turn in range(4):
        found = await client.ask(changed(texts[: 2 * turn + 1]), texts[2 * turn + 1])
        assert (found.digests, found.dropped) == (tuple(chain(KEY, changed(texts[: 2 * turn + 1]))), False)


@pytest.mark.parametrize("times", [1, 2])
async def test_chats_that_are_opened_with_the_same_greeting_stay_two_however_often_one_is_sent(times: int) -> None:
    client = Client()
    greeting = said("", "This is your assistant. What can I do for you today, dear customer?")[1:]
    for _ in range(times):
        first = await client.ask([*greeting, *said("my boat leaks")], "then bail")
    second = await client.ask([*greeting, *said("my roof leaks")], "then mend it")
    assert first.session != second.session


async def test_behind_a_history_brought_along_less_of_the_first_answer_than_was_sent_is_gone_on_from() -> None:
    client = Client()
    client.store.behind = True
    history = ("said", "elsewhere", "tell me of boats")
    first = await client.ask(said(*history), "A boat is a vessel that")
    second = await client.ask(said(*history, "A boat is a", "and of ships?"), "larger")
    third = await client.ask(said(*history, "A boat is a", "and of ships?", "larger", "thanks"), "aye")
    assert first.session == second.session == third.session


async def test_a_longer_history_that_nobody_knows_begins_a_conversation_whatever_it_opens_with() -> None:
    client = Client()
    first = await client.ask(said("hi"), "hello")
    other = await client.ask(said("hi", "good day", "how are you", "well", "good"), "yes")
    assert other.session != first.session


async def test_a_regenerated_answer_later_on_stays_in_its_session() -> None:
    client = Client()
    one = await client.ask(said("hi"), "hello")
    await client.ask(said("hi", "hello", "q"), "first try")
    again = await client.ask(said("hi", "hello", "q"), "second try")
    assert again.session == one.session


async def test_an_edited_history_goes_on_from_the_longest_known_prefix() -> None:
    client = Client()
    one = await client.ask(said("a"), "b")
    await client.ask(said("a", "b", "c"), "d")
    edited = await client.ask(said("a", "b", "c (edited)", "d (edited)", "e"), "f")
    assert edited.session == one.session


@pytest.mark.parametrize("fault", ["broken", "hangs"])
async def test_a_history_of_which_a_part_is_known_goes_on_where_the_store_does_not_answer(fault: str) -> None:
    client = Client()
    one = await client.ask(said("hi"), "hello")
    await client.ask(said("hi", "hello", "my cat is ill"), "oh dear, what does it have?")
    setattr(client.store, fault, True)
    async with asyncio.timeout(5):
        stopped = await client.ask(said("hi", "hello", "my cat is ill", "oh dear", "it coughs"), "I see")
    assert (stopped.session, stopped.fault) == (one.session, False)


async def test_a_label_is_the_session_whatever_the_messages() -> None:
    client = Client()
    one = await client.ask(said("hi"), "hello", label="mine")
    two = await client.ask(said("something", "else", "entirely"), "ok", label="mine")
    assert one.session == two.session == SessionRef(one.session.session_id, "mine")


async def test_a_minted_label_can_be_sent_as_the_header() -> None:
    client = Client()
    minted = await client.ask(said("hi"), "hello")
    named = await client.ask(said("x"), "y", label=minted.session.label)
    assert named.session == minted.session


async def test_the_store_knows_what_redis_forgot() -> None:
    client = Client()
    one = await client.ask(said("hi"), "hello")
    client.hot.answers.clear()
    assert (await client.ask(said("hi", "hello", "q"), "a")).session == one.session
    client.hot.broken = True
    found = await client.ask(said("hi", "hello", "q2"), "a2")
    assert found.session == one.session
    assert not found.fault


@pytest.mark.parametrize("texts", [("hi",), ("hi", "hello", "q")])
async def test_with_everything_away_a_new_session_is_opened(texts: tuple[str, ...]) -> None:
    client = Client()
    client.hot.broken = client.store.broken = True
    messages = said(*texts)
    digests = tuple(chain(KEY, messages))
    assert (await client.conversations.find(SCOPE, KEY, None, messages, digests, ())).session.label


async def test_system_messages_do_not_change_the_conversation() -> None:
    client = Client()
    one = await client.ask([{"role": "system", "content": "v1"}, *said("hi")], "hello")
    two = await client.ask([{"role": "system", "content": "v2"}, *said("hi", "hello", "q")], "a")
    assert one.session == two.session


async def test_a_process_knows_the_answers_it_gave_while_redis_and_store_are_away() -> None:
    client = Client()
    first = await client.ask(said("hi"), "hello")
    client.hot.broken = client.store.broken = True
    found = await client.ask(said("hi", "hello", "and?"), "well")
    assert (found.session, found.is_new) == (first.session, False)


async def test_a_conversation_that_was_erased_is_not_gone_on_with_under_its_name() -> None:
    client = Client()
    first = await client.ask(said("hi"), "hello", label="about my divorce")
    client.hot.answers.clear()
    client.store.sessions.clear()
    client.conversations.let_go(SCOPE.tenant, [])
    found = await client.ask(said("hi", "hello", "and?"), "well")
    assert found.session != first.session and found.is_new


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("visible", "tenant", "erased", "remembered"),
    [
        ([7, 8], SCOPE.tenant, [8], False),
        ([7, 8], SCOPE.tenant, [9], True),
        ([7, 8], UUID(int=99), [8], True),
        ([], SCOPE.tenant, [9], False),
        ([], UUID(int=99), [9], True),
    ],
)
async def test_what_is_erased_while_it_is_under_way_is_not_said_to_redis(
    visible: list[int], tenant: UUID, erased: list[int], remembered: bool, late: bool
) -> None:
    client, messages = Client(), said("hi")
    for _ in range(ERASURES_KNOWN):  # before it begins: nothing of it
        client.conversations.let_go(SCOPE.tenant, visible)
    asked = (SCOPE, KEY, "divorce", messages, tuple(chain(KEY, messages)), visible)
    found = client.conversations.unrecognised(*asked) if late else await client.conversations.find(*asked)
    client.conversations.let_go(tenant, erased)
    client.conversations.let_go(UUID(int=98), visible)
    await client.conversations.remember(SCOPE, KEY, found, [Digest(b"a" * 32)], {})
    assert bool(client.hot.answers) is remembered


async def test_what_began_before_more_erasures_than_are_told_apart_is_not_said_to_redis() -> None:
    client, messages = Client(), said("hi")
    found = await client.conversations.find(SCOPE, KEY, "divorce", messages, tuple(chain(KEY, messages)), [7])
    for _ in range(ERASURES_KNOWN + 1):
        client.conversations.let_go(UUID(int=99), [1])
    await client.conversations.remember(SCOPE, KEY, found, [Digest(b"a" * 32)], {})
    assert not client.hot.answers


async def test_a_history_that_nobody_knows_is_one_conversation_however_often_it_is_sent() -> None:
    client = Client()
    history = said("from", "elsewhere", "and now?")
    first = await client.ask(history, "well")
    assert (await client.ask(history, "hm")).session == first.session
    assert (await client.ask([*history, *said("", "hm", "on")[1:]], "yes")).session == first.session
    assert (await client.ask(history, "again")).session == first.session


# ---------------------------------------------------------------- where nobody could say in time


async def test_a_named_session_that_was_looked_up_late_takes_no_other_chat_in() -> None:
    client = Client()
    named = await client.ask(said("hi"), "hello", label="mine", late=True)
    assert (named.named, named.opening) == (True, None)
    other = await client.ask(said("hi"), "hey there")
    assert other.session != named.session
    assert (await client.ask(said("hi", "hello", "on"), "well", label="mine")).session == named.session


@pytest.mark.parametrize("behind", [False, True], ids=["stored", "not stored yet"])
@pytest.mark.parametrize("late_turns", [1, 2, 3])
async def test_a_conversation_that_was_looked_up_late_is_found_again(late_turns: int, behind: bool) -> None:
    client, history = Client(), ["hi", "hello"]
    first = await client.ask(said("hi"), "hello")
    client.elsewhere()
    client.store.behind = behind
    for number in range(late_turns):
        found = await client.ask(said(*history, f"q{number}"), f"a{number}", late=True)
        assert found.session != first.session
        history += [f"q{number}", f"a{number}"]
    again = await client.ask(said(*history, "and?"), "well")
    assert (again.session, again.dropped) == (first.session, False)
    assert (await client.ask(said(*history, "and?", "well", "on"), "yes")).session == first.session


@pytest.mark.parametrize("store", ["broken", "behind"])
async def test_a_conversation_that_neither_redis_nor_the_store_could_name_is_found_again(store: str) -> None:
    client = Client()
    client.store.behind = store == "behind"
    first = await client.ask(said("hi"), "hello")
    client.elsewhere()
    client.hot.slow, client.store.broken = True, store == "broken"
    found = await client.ask(said("hi", "hello", "q"), "a")
    assert (found.session != first.session, found.is_new, found.fault) == (True, False, True)
    client.hot.slow = client.store.broken = False
    assert (await client.ask(said("hi", "hello", "q", "a", "on"), "yes")).session == first.session


async def test_an_opening_that_was_looked_up_late_is_gone_on_from() -> None:
    client = Client()
    client.store.behind = True
    first = await client.ask(said("hi"), "hello", late=True)
    assert (await client.ask(said("hi", "hello", "q"), "a")).session == first.session


# ---------------------------------------------------------------- clients that drop what is old

LONG = tuple(f"this is what was said at place {number}, at some length" for number in range(12))


async def talked(client: Client, turns: int, label: str | None = None) -> Conversation:
    """A conversation of so many turns, its history sent whole each time."""
    for turn in range(turns):
        found = await client.ask(said(*LONG[: 2 * turn + 1]), LONG[2 * turn + 1], label)
    return found


@pytest.mark.parametrize("label", [None, "named"])
@pytest.mark.parametrize("first", [2, 3, 4])
async def test_a_history_without_its_beginning_is_of_the_same_conversation(first: int, label: str | None) -> None:
    client = Client()
    whole = await talked(client, 5, label)
    left = said(*LONG[:11])[first:]
    found = await client.ask(left, "well", label)
    expected = tuple(chain(KEY, said(*LONG[:11])))
    assert found.session == whole.session
    assert found.dropped
    known = 2 if first % 2 else 1  # a history that begins with an answer does not show what that one answered
    assert found.digests[known:] == expected[first + known :]


async def test_a_window_that_slides_stays_one_conversation() -> None:
    client = Client()
    whole = await talked(client, 2)
    for turn in range(2, 6):
        window = said(*LONG[: 2 * turn + 1])[2 * turn - 2 :]
        assert (await client.ask(window, LONG[(2 * turn + 1) % 12])).session == whole.session


async def test_a_window_that_begins_with_what_was_said_again_since_goes_on_where_it_stood() -> None:
    client, again = Client(), ("please run all of the tests again", "all of the tests have passed")
    texts = [*LONG[:4], *again, *LONG[4:8], *again, *LONG[8:12]]
    for turn in range(7):
        whole = await client.ask(said(*texts[: 2 * turn + 1]), texts[2 * turn + 1])
    found = await client.ask(said(*texts[4:15]), "well")
    assert (found.session, found.digests[2:]) == (whole.session, tuple(chain(KEY, said(*texts[:15])))[6:])


async def test_a_long_window_of_which_only_the_last_answer_is_known_stays_one_conversation() -> None:
    client, texts = Client(), [f"this is what was said at place {number}, at some length" for number in range(42)]
    for turn in range(20):
        whole = await client.ask(said(*texts[: 2 * turn + 1]), texts[2 * turn + 1])
    client.hot.pairs = dict(list(client.hot.pairs.items())[-1:])  # the others were said more than a day ago
    found = await client.ask(said(*texts[2:41]), texts[41])
    assert (found.session, found.digests[-1]) == (whole.session, chain(KEY, said(*texts[:41]))[-1])


@pytest.mark.parametrize("label", [None, "named"])
async def test_a_history_with_its_middle_cut_out_goes_on_behind_the_cut(label: str | None) -> None:
    client = Client()
    whole = await talked(client, 5, label)
    history = said(*LONG[:11])
    found = await client.ask([*history[:2], *history[6:]], "well", label)
    expected = tuple(chain(KEY, history))
    assert (found.session, found.digests) == (whole.session, (*expected[:2], *expected[6:]))


async def test_a_pair_of_few_words_says_nothing() -> None:
    client = Client()
    await client.ask(said("hello there"), "hi")
    await client.ask(said("hello there", "hi", "thanks"), "you are welcome")
    found = await client.ask(said("thanks", "you are welcome", "what now?"), "well")
    assert not found.dropped


async def test_a_named_conversation_whose_newest_answer_is_not_as_it_was_given_is_not_taken_for_cut() -> None:
    client = Client()
    await talked(client, 3, "named")
    changed = [*said(*LONG[:5]), {"role": "assistant", "content": LONG[5][:20]}, *said(LONG[6])]
    found = await client.ask(changed, LONG[7], "named")
    assert found.digests == tuple(chain(KEY, changed))
    assert not found.dropped


async def test_a_conversation_that_is_known_is_not_taken_for_another_in_which_the_same_was_said() -> None:
    client = Client()
    await client.ask(said(LONG[0]), LONG[1])
    first = await client.ask(said(LONG[2]), LONG[3])
    found = await client.ask(said(LONG[2], LONG[3], LONG[0], LONG[1], LONG[4]), "well")  # the answer is not as given
    assert (found.session, found.dropped) == (first.session, False)


async def test_a_pair_of_another_named_conversation_is_not_joined() -> None:
    client = Client()
    await talked(client, 3, "one")
    found = await client.ask(said(*LONG[:7])[2:], "well", "two")
    assert not found.dropped


@pytest.mark.parametrize("label", [None, "named"])
async def test_a_window_that_was_looked_up_late_goes_on_where_its_conversation_stood(label: str | None) -> None:
    client = Client()
    whole = await talked(client, 3, label)
    await client.ask(said(*LONG[:7])[2:], LONG[7], label, late=True)
    for first in (4, 6):  # the last begins with what was looked up late
        window = said(*LONG[: first + 5])[first:]
        found = await client.ask(window, LONG[first + 5], label)
        expected = tuple(chain(KEY, said(*LONG[: first + 5])))
        assert (found.session, found.digests[-1]) == (whole.session, expected[-1])


async def test_a_named_conversation_that_was_looked_up_late_and_is_whole_is_not_taken_for_cut() -> None:
    client = Client()
    await talked(client, 2, "named")
    await client.ask(said(*LONG[:5]), LONG[5], "named", late=True)
    assert not (await client.ask(said(*LONG[:7]), LONG[7], "named")).dropped


PAGES = "\n<context>\nPages that were found for this question.\n</context>"


@pytest.mark.parametrize("brought", [PAGES, "\n\n# Rules\nAnswer in one line."], ids=["pages", "rules"])
@pytest.mark.parametrize("label", [None, "named"])
async def test_what_is_sent_with_more_once_and_without_it_from_then_on_stays_where_it_was(
    brought: str, label: str | None
) -> None:
    client = Client()
    client.store.behind = True
    first = await client.ask(said(LONG[0] + brought), LONG[1], label)
    for turn in range(1, 5):
        found = await client.ask(said(*LONG[: 2 * turn], LONG[2 * turn] + brought), LONG[2 * turn + 1], label)
        assert (found.session, found.digests[0], found.dropped) == (first.session, first.tip, False), turn
    as_sent = [text if at % 2 else text + brought for at, text in enumerate(LONG[:9])]
    assert found.digests == tuple(chain(KEY, said(*as_sent)))


async def test_a_message_sent_with_more_behind_what_is_known_stays_where_it_was() -> None:
    client = Client()
    whole = await talked(client, 2)
    asked = await client.ask(said(*LONG[:4], LONG[4] + PAGES), LONG[5])
    found = await client.ask(said(*LONG[:7]), LONG[7])
    assert (found.session, found.dropped) == (whole.session, False)
    assert found.digests[:6] == (*asked.digests, extend(KEY, asked.tip, said(*LONG[:6])[-1]))


async def test_a_window_behind_a_message_sent_with_more_is_cut() -> None:
    client = Client()
    first = await client.ask(said(LONG[0] + PAGES), LONG[1])
    for turn in range(1, 4):
        await client.ask(said(*LONG[: 2 * turn], LONG[2 * turn] + PAGES), LONG[2 * turn + 1])
    found = await client.ask([*said("What is this about?", "The mill."), *said(*LONG[:9])[4:]], "well")
    assert (found.session, found.dropped, found.digests[:2]) == (first.session, True, (None, None))


async def test_the_same_first_line_and_another_answer_are_another_conversation() -> None:
    client = Client()
    first = await client.ask(said(LONG[0] + PAGES), LONG[1])
    found = await client.ask(said(LONG[0], LONG[3], LONG[4]), "well")
    assert found.session != first.session


async def test_an_answer_of_few_words_says_nothing_by_a_first_line() -> None:
    client = Client()
    first = await client.ask(said(LONG[0] + PAGES), "Yes.")
    found = await client.ask(said(LONG[0], "Yes.", LONG[4]), "well")
    assert found.session != first.session


@pytest.mark.parametrize("copies", [False, True])
async def test_a_history_that_nobody_knows_is_redacted_only_where_something_was_imported(copies: bool) -> None:
    client, looked = Client(), list[int]()
    client.store.copies = copies

    def as_copied(chain_key: bytes, messages: Sequence[object]) -> Sequence[Digest]:
        looked.append(len(messages))
        return [one for one in chain(chain_key, messages) if one]

    client.conversations = Conversations(client.hot, client.store, as_copied)
    await client.ask(said("1 + 1", "two", "what is 2 + 2?"), "four")
    assert looked == ([3] if copies else [])


async def test_the_same_question_behind_words_of_the_clients_own_is_another_turn() -> None:
    client, own = Client(), ("These are the files of the chat now.", "Fine, all that I change will be in those files.")
    asked = (LONG[0], LONG[2], LONG[4], LONG[2])
    found = []
    for turn, question in enumerate(asked):
        before = [text for at in range(turn) for text in (asked[at], LONG[2 * at + 1])]
        found.append(await client.ask(said(*before, *own, question + "\n\nAnswer in one line."), LONG[2 * turn + 1]))
    assert len({one.session for one in found}) == 1
    assert len({one.tip for one in found}) == 4
