"""The service before an upstream that answers with scripted bytes: one for the whole session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.keyed import Keyed
from tests.e2e.upstreams import ScriptedUpstream
from tests.service_fixture import Service, serving


@dataclass(frozen=True, slots=True)
class Scripted:
    """A service and the scripted upstream behind it."""

    service: Service
    upstream: ScriptedUpstream


@pytest.fixture(scope="session")
def scripted_session() -> Iterator[Scripted]:
    """Started once."""
    upstream = ScriptedUpstream()
    with serving(upstream.url) as service:
        yield Scripted(service, upstream)
    upstream.close()


@pytest.fixture
def scripted(scripted_session: Scripted) -> Iterator[Scripted]:
    """The scripted service with no script left over."""
    scripted_session.upstream.scripts.clear()
    scripted_session.upstream.seen.clear()
    yield scripted_session
    scripted_session.upstream.scripts.clear()


@pytest.fixture
def keyed(keyed_service: Service) -> Keyed:
    """The shared service that asks for keys."""
    return Keyed(keyed_service)
