"""A data directory restored from an older copy, with the newest journal of erasures in it, on a running service."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.test_documents_e2e import PIRAN, documents, upload
from tests.service_fixture import Service, serving, stand_in
from tests.test_forget_e2e import forget, found, take_in

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
BERTH = "A berth on the east pier costs two hundred and forty euros a month."
GUIDE = f"# Piran\n\n{PIRAN} {'The harbour is old. ' * 60}\n\n# Berths\n\n{BERTH} {'The pier is new. ' * 60}\n"
OLD = {"session": "main", "role": "user", "content": "I keep four hives of carniolan bees behind the old mill in Bled."}
NEW = {"session": "main", "role": "user", "content": "I mend the sails of a schooner in the harbour of Izola now."}


@pytest.fixture
def service() -> Iterator[Service]:
    with stand_in() as upstream, serving(upstream) as one:
        yield one


def test_an_older_copy_holds_nothing_that_was_forgotten_since_and_takes_nothing_newer(service: Service) -> None:
    upload(service, "bor", GUIDE)
    made = service.call(
        "POST", "/memory/v1/tasks", {"tasks": [{"title": "Paint the hull of the Galeb"}]}, X_Memory_User="bor"
    )
    service.stop()
    older = service.data.with_name("older")
    subprocess.run(["cp", "-a", str(service.data), str(older)], check=True)
    service.restart()
    take_in(service, "ana", OLD)
    gone = forget(service, "ana", user="ana")
    assert gone["complete"] is True, gone
    chunk = next(one for one in search(service, "bor", PIRAN) if PIRAN in one["content"])
    assert forget(service, "bor", memory=chunk["id"])["complete"] is True
    assert forget(service, "bor", memory=made["data"][0]["memory_id"])["complete"] is True
    service.stop()
    shutil.copy(service.data / "erasures.ndjson", older / "erasures.ndjson")
    shutil.rmtree(service.data)
    older.rename(service.data)
    service.restart()
    assert not any("Halcyon" in one for one in found(service, "bor", PIRAN))
    assert any(BERTH in one for one in found(service, "bor", BERTH)) and len(documents(service, "bor")) == 1
    assert service.call("GET", "/memory/v1/tasks", X_Memory_User="bor")["data"] == []
    assert service.call("GET", f"/memory/v1/forget/{gone['id']}", X_Memory_User="ana") == gone
    assert take_in(service, "ana", OLD, NEW)[-1]["failed"] == 1
    service.stop()
    service.restart()
    assert found(service, "ana", "Who mends sails?") == [NEW["content"]]
    assert not any("Halcyon" in one for one in found(service, "bor", PIRAN))


def search(service: Service, user: str, query: str) -> list[dict[str, str]]:
    answer = service.call("POST", "/memory/v1/search", {"query": query, "k": 20}, X_Memory_User=user)
    candidates: list[dict[str, str]] = answer["candidates"]
    return candidates
