"""What a prompt would have been given: a kept exchange and a changed question in, another block and body out.

By the same steps as a live request: one embedding, `Recaller.search`, the gate, `build_block`, the raw-span edit. What
may differ: the moment the store is asked as of (by default when the request came, so that it does not see its own
answer), memories left out, and the settings of CHANGEABLE. The law is that of now: what has expired, was erased or is
above a ceiling stays out. Not made again, since nothing keeps them as they were: the lines of a working context, and
how often a memory had been injected by then. Never writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel, ValidationError

from memory.assemble import Block
from memory.config import Settings
from memory.errors import StoreUnavailable, TimedOut, Unprocessable
from memory.model import Candidate, Captured, Recall
from memory.off_loop import off_loop
from memory.read.items import Filter
from memory.read.ledger import Kept
from memory.read.recall import Question, Recaller
from memory.read.working_lines import affordable
from policies.gate import Holder
from policies.labels import Sensitivity
from proxy.cutting import Cut
from proxy.gated import let_through, within
from proxy.identity import Ask
from proxy.prompt import Rules, each_once, limits_of
from proxy.remembering import RECALLED_KINDS
from proxy.room import ServedModels, block_max, room_for, wanted_tokens
from proxy.wire.chat_request import ChatRequest

# What another configuration may say: the settings that decide what is recalled and placed, and no others.
CHANGEABLE: Final = (
    "recall.budget_tokens_max",
    "recall.candidates_max",
    "recall.episodes_max",
    "recall.facts_max",
    "recall.procedures_max",
    "recall.tasks_max",
    "session.replay_turns",
)
# Nobody's answer waits for it; an index of a past moment is built for this one question (3 s for 10,000 memories).
DEADLINE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be different. `in_prompt`: memories taken as being in the prompt already, so that they are not placed
    anew; `contained`: the conversation that the prompt holds whole, of which nothing is recalled. `cut`: what did not
    fit and was not sent; `sent_from`: the message before which all was left out already, so that it could be recalled.
    """

    as_of: datetime
    without: frozenset[UUID] = frozenset()
    config: Mapping[str, int] = field(default_factory=dict)
    in_prompt: frozenset[UUID] = frozenset()
    contained: UUID | None = None
    cut: Cut | None = None
    sent_from: int = 0


class WhatIf:
    """Asks the recall that serves chats what it would have given. One per process."""

    def __init__(
        self,
        settings: Settings,
        recaller: Recaller,
        rules: Rules,
        models: ServedModels,
    ) -> None:
        self.settings = settings
        self._recaller = recaller
        self._rules = rules
        self._models = models

    @property
    def exact(self) -> bool:
        """Whether tokens are counted rather than estimated."""
        return self._rules.counter.exact

    async def block(
        self,
        captured: Captured,
        chat: ChatRequest,
        asked: Asked,
        *,
        ask: Ask,
        holder: Holder,
        now: datetime,
        restored: Sequence[Candidate] = (),
    ) -> tuple[Recall, Block]:
        """What would be recalled, and the block of it behind what was `restored`; an empty one where nothing would be
        placed.

        `ask.budget` caps it as the request's did. Raises Unprocessable for a setting that is none of CHANGEABLE,
        TimedOut, StoreUnavailable.
        """
        settings = changed(self.settings, asked.config)
        if not chat.placeable or not (chat.query_text or restored) or ask.budget == 0:
            return Recall(), Block("", 0, (), {})
        recall = Recall()
        if chat.query_text:
            question = self._question(captured, chat, asked, settings, holder, now)
            recall = await self._recaller.search(question, DEADLINE_S, chat.earlier_texts)
            if (refused := self._recaller.refused(question, recall, DEADLINE_S)) is not None:
                raise refused
            _refuse_faults(recall)
        recall = let_through(replace(recall, candidates=each_once((*restored, *recall.candidates))), holder)
        wanted, rules = 0, replace(self._rules, limits=limits_of(settings))
        if any(candidate.admitted for candidate in recall.candidates):
            wanted = wanted_tokens(ask, block_max(settings, restored))
        share = settings.ledger.tokens_max_share
        budget = (await room_for(chat, wanted, Kept(), share, self._models, asked.cut)).budget
        recall = affordable(recall, budget, rules.counter.count)
        work = partial(rules.block, recall.candidates, recall.terms, budget, asked.in_prompt)
        return recall, await off_loop(len(captured.request), work)

    def where(self, asked: Asked, holder: Holder, now: datetime) -> Filter:
        """What the request may see, under the law of now."""
        ceiling = self.settings.upstream.sensitivity_max
        label = Sensitivity(ceiling) if ceiling else None
        where = Filter(kinds=RECALLED_KINDS, ceiling=label, unexpired_at=now).without(asked.without)
        return within(where, holder)

    def _question(
        self,
        captured: Captured,
        chat: ChatRequest,
        asked: Asked,
        settings: Settings,
        holder: Holder,
        now: datetime,
    ) -> Question:
        """The question that the live path asked, of the store as it stood at `asked.as_of`."""
        where = replace(self.where(asked, holder, now), exclude_session_id=asked.contained)
        turns = settings.session.replay_turns
        opens = not any(view.role == "assistant" for view in chat.messages)
        quoted = bool(turns) and captured.named and opens and where.ceiling is not Sensitivity.PUBLIC
        return Question(
            scope=captured.scope,
            text=chat.query_text,
            k=settings.recall.candidates_max,
            now=captured.arrived_at,
            where=where,
            known_chains=[digest for digest in captured.digests[asked.sent_from :] if digest is not None],
            as_of=asked.as_of,
            skip_repeats=True,
            replay=(captured.session.session_id, turns) if quoted else None,
        )


def changed(settings: Settings, config: Mapping[str, int]) -> Settings:
    """The settings with some of CHANGEABLE replaced. Raises Unprocessable naming the one that cannot be."""
    sections: dict[str, BaseModel] = {}
    for name, value in config.items():
        if name not in CHANGEABLE:
            known = ", ".join(CHANGEABLE)
            raise Unprocessable(f"config.{name[:64]} cannot be asked about; known: {known}", param="config")
        section, _, key = name.partition(".")
        old = sections.get(section) or getattr(settings, section)
        sections[section] = _with(old, name, key, value)
    return settings.model_copy(update=sections)


def _with(section: BaseModel, name: str, key: str, value: int) -> BaseModel:
    given: dict[str, Any] = {field: getattr(section, field) for field in type(section).model_fields}
    try:
        return type(section).model_validate({**given, key: value})
    except ValidationError as exc:
        said = exc.errors(include_url=False, include_context=False, include_input=False)[0]["msg"]
        raise Unprocessable(f"config.{name}: {said}", param="config") from None


def _refuse_faults(recall: Recall) -> None:
    """What a fault left out must not pass for what would not have been placed. Raises TimedOut, StoreUnavailable."""
    if recall.reason == "deadline":
        raise TimedOut(f"the recall took longer than {DEADLINE_S:g} s", retry_after_s=1)
    if recall.reason is not None:
        raise StoreUnavailable(f"memory cannot be recalled in full now ({recall.reason})", retry_after_s=1)
