"""Bounds of a user: what is one too many is refused, what ended counts no more, and nobody pays for another."""

from __future__ import annotations

import pytest

from memory.config_sections import Limits
from memory.errors import RateLimited, TooLarge
from memory.ids import new_id
from proxy import bounds
from proxy.bounds import UserLimits

HERE = new_id()
ADA = (HERE, "ada")


def test_the_same_name_in_another_tenant_is_another_user() -> None:
    users = UserLimits(Limits(requests_per_user_max=1))
    with users.request(ADA), users.request((new_id(), "ada")), pytest.raises(RateLimited), users.request(ADA):
        pass


def test_an_hour_later_a_new_conversation_may_begin() -> None:
    now = [0.0]
    users = UserLimits(Limits(sessions_per_user_hour=2), lambda: now[0])
    first, second, third = new_id(), new_id(), new_id()
    users.session(ADA, first)
    now[0] = 600.0
    users.session(ADA, second)
    with pytest.raises(RateLimited) as refused:
        users.session(ADA, third)
    assert refused.value.retry_after_s == 3000
    now[0] = 3600.0
    users.session(ADA, third)
    users.session(ADA, second)
    with pytest.raises(RateLimited):
        users.session(ADA, first)


def test_users_are_forgotten_in_the_order_they_were_last_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "USERS_MAX", 3)
    users = UserLimits(Limits(sessions_per_user_hour=1))
    for n in range(10):
        users.session((ADA[0], f"u{n}"), new_id())
    assert len(users._sessions) == 3


def test_messages_are_counted() -> None:
    users = UserLimits(Limits(messages_max=2))
    users.messages(2)
    with pytest.raises(TooLarge):
        users.messages(3)
