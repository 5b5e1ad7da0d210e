"""Erasure on a running service: what is forgotten is gone from every answer, and what others have stays."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from memory.erasure.receipt import is_genuine
from tests.e2e.talk import ask, rows, turn
from tests.service_fixture import Service, serving, stand_in


@pytest.fixture(scope="module")
def forgetting() -> Iterator[Service]:
    """A service of this file's own, two workers: its users are forgotten."""
    with stand_in() as upstream, serving(upstream, "--workers", "2") as service:
        yield service


def take_in(service: Service, user: str, *lines: dict[str, Any], **headers: str) -> list[dict[str, Any]]:
    body = "\n".join(json.dumps(line) for line in lines).encode()
    request = urllib.request.Request(
        service.url + "/memory/v1/import", data=body, method="POST", headers={"X-Memory-User": user, **headers}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return [json.loads(line) for line in answer.read().splitlines()]


def found(service: Service, user: str, query: str) -> list[str]:
    answer = service.call("POST", "/memory/v1/search", {"query": query, "k": 20}, X_Memory_User=user)
    return [one["content"] for one in answer["candidates"]]


def forget(service: Service, caller: str, /, *, within_s: float = 60, **body: Any) -> Any:
    return service.forget(body, within_s, X_Memory_User=caller)


TALK = (
    {"session": "s1", "role": "user", "content": "I keep four hives of carniolan bees behind the old mill in Bled."},
    {"session": "s1", "role": "assistant", "content": "Carniolan bees are gentle; four hives is a good number."},
    {"session": "s2", "role": "user", "content": "My sister Marjeta paints the hive boards with devils and foxes."},
    {"session": "s2", "role": "user", "content": "I live in Ljubljana.", "source_id": "home-1"},
)


def test_a_forgotten_user_is_gone_and_the_others_stay(forgetting: Service) -> None:
    take_in(forgetting, "ana", *TALK)
    take_in(forgetting, "bor", *TALK)
    before = forgetting.call("GET", "/memory/v1/memories?limit=100", X_Memory_User="bor")
    assert found(forgetting, "ana", "bees")
    receipt = forget(forgetting, "ana", user="ana")
    assert receipt["complete"] is True, receipt
    assert receipt["level"] == "logical" and receipt["counts"]["turns"] == 4
    assert is_genuine(receipt, receipt["key"])
    assert receipt["processes"]["3"]["asked"] == receipt["processes"]["3"]["confirmed"] >= 3
    assert found(forgetting, "ana", "bees") == []
    assert forgetting.call("GET", "/memory/v1/sessions", X_Memory_User="ana")["data"] == []
    assert forgetting.call("GET", "/memory/v1/memories?limit=100", X_Memory_User="bor") == before
    assert found(forgetting, "bor", "bees")


SECRET_NAME = "sk-proj-A1b2C3d4E5f6G7h8I9j0K1l2M3n4"


@pytest.mark.parametrize("name", ["Zoe\u0301", SECRET_NAME], ids=["decomposed", "a secret"])
@pytest.mark.parametrize("kind", ["user", "project", "session"])
def test_what_a_name_takes_goes_however_it_is_written(forgetting: Service, kind: str, name: str) -> None:
    scope = {"X-Memory-User": "fran", f"X-Memory-{kind.capitalize()}": quote(name)}
    told = take_in(forgetting, "fran", {"role": "user", "content": f"I keep bees, {kind} {len(name)}."}, **scope)
    assert told[-1]["done"] == 1, told
    named = {one.replace("-", "_"): value for one, value in scope.items()}
    receipt = forgetting.forget({kind: name, "dry_run": False}, **named)
    assert (receipt["complete"], receipt["counts"].get("turns")) == (True, 1), receipt
    assert forgetting.call("GET", "/memory/v1/sessions", **named)["data"] == []


@pytest.mark.parametrize("kind", ["user", "project", "session", "source_id"])
def test_a_name_that_nothing_can_have_is_refused_by_its_member(forgetting: Service, kind: str) -> None:
    error = forgetting.forget({kind: "a\x00b"}, X_Memory_User="fran")["error"]
    assert (error["code"], error["param"]) == ("unprocessable", kind)


def test_the_forgotten_does_not_come_back_by_import_and_the_user_may(forgetting: Service) -> None:
    take_in(forgetting, "cene", *TALK)
    assert forget(forgetting, "cene", user="cene")["complete"] is True
    told = take_in(forgetting, "cene", *TALK, {"session": "s9", "role": "user", "content": "I play the accordion now."})
    assert told[-1]["failed"] == len(TALK)
    assert {one for one in found(forgetting, "cene", "bees") if "accordion" not in one} == set()
    assert any("accordion" in one for one in found(forgetting, "cene", "accordion"))


def test_a_dry_run_takes_nothing_and_its_word_holds_for_exactly_that(forgetting: Service) -> None:
    take_in(forgetting, "dana", *TALK)
    planned = forget(forgetting, "dana", session="s1", dry_run=True)
    assert planned["counts"]["turns"] == 2 and planned["counts"]["sessions"] == 1
    assert len(planned["sample_ids"]) >= 2
    assert found(forgetting, "dana", "carniolan bees")
    take_in(forgetting, "dana", {"session": "s1", "role": "user", "content": "The mill was sold to a baker in May."})
    odd = forget(forgetting, "dana", session="s1", confirm="\u00e9\ud83d\ude00")
    assert odd["error"]["code"] == "conflict", "what nobody confirmed, in whatever letters"
    refused = forget(forgetting, "dana", session="s1", dry_run=False, confirm=planned["confirm"])
    assert refused["error"]["code"] == "conflict"
    planned = forget(forgetting, "dana", session="s1", dry_run=True)
    receipt = forget(forgetting, "dana", session="s1", confirm=planned["confirm"])
    assert receipt["complete"] is True, receipt
    left = found(forgetting, "dana", "carniolan bees mill baker sister")
    assert not any("carniolan" in one or "baker" in one for one in left)
    assert any("Marjeta" in one for one in left)


def test_a_conversation_is_forgotten_by_the_id_that_an_export_calls_it_by_as_it_is_read_by_it(
    forgetting: Service,
) -> None:
    ask(forgetting, "The ferry to Krk leaves at noon.\nsay: Noted.", "gal", session="ferry")
    forgetting.settle(X_Memory_User="gal")
    request = urllib.request.Request(f"{forgetting.url}/memory/v1/export?of=user", headers={"X-Memory-User": "gal"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        lines = [json.loads(line) for line in answer.read().splitlines()]
    (named,) = {line["session_id"] for line in lines if line["type"] == "retrieval"}
    assert forgetting.call("GET", f"/memory/v1/sessions/{named}", X_Memory_User="gal")["id"] == "ferry"
    planned = [forget(forgetting, "gal", session=one, dry_run=True) for one in (named, "ferry")]
    assert planned[0] == planned[1] and planned[0]["counts"]["sessions"] == 1


def test_a_query_is_rehearsed_unless_told_otherwise(forgetting: Service) -> None:
    take_in(forgetting, "eva", *TALK)
    planned = forget(forgetting, "eva", query="Where do I keep my carniolan bees?")
    assert set(planned) == {"counts", "sample_ids", "confirm"}
    assert planned["counts"]["turns"] >= 1
    receipt = forget(forgetting, "eva", query="Where do I keep my carniolan bees?", dry_run=False)
    assert receipt["complete"] is True, receipt
    assert not any("behind the old mill" in one for one in found(forgetting, "eva", "hives behind the old mill"))


def test_a_source_goes_with_its_facts_and_the_older_fact_holds_again(forgetting: Service) -> None:
    earlier = {"session": "s0", "role": "user", "content": "I live in Maribor.", "occurred_at": "2026-01-01T00:00:00Z"}
    later = {
        "session": "s1",
        "role": "user",
        "content": "I live in Celje now.",
        "occurred_at": "2026-02-01T00:00:00Z",
        "source_id": "moved",
    }
    take_in(forgetting, "fani", earlier, later)
    receipt = forget(forgetting, "fani", source_id="moved")
    assert receipt["complete"] is True, receipt
    left = forgetting.call("GET", "/memory/v1/memories?limit=100", X_Memory_User="fani")["data"]
    assert not any("Celje" in one["content"] for one in left)
    facts = [one for one in left if one["kind"] == "semantic"]
    assert all(one["superseded_by"] is None for one in facts)


def test_a_memory_goes_with_what_it_rests_on(forgetting: Service) -> None:
    take_in(forgetting, "gaja", *TALK)
    listed = forgetting.call("GET", "/memory/v1/memories?limit=100&kind=episodic", X_Memory_User="gaja")["data"]
    wanted = next(one for one in listed if "Marjeta" in one["content"])
    assert forget(forgetting, "bor", memory=wanted["id"])["error"]["code"] == "not_found"
    receipt = forget(forgetting, "gaja", memory=wanted["id"])
    assert receipt["complete"] is True, receipt
    assert not any("Marjeta" in one for one in found(forgetting, "gaja", "sister Marjeta paints"))
    session = forgetting.call("GET", "/memory/v1/sessions/s2", X_Memory_User="gaja")
    assert not any("Marjeta" in turn["content"] for turn in session["turns"])
    listed = forgetting.call("GET", "/memory/v1/sessions", X_Memory_User="gaja")["data"]
    counted = {one["id"]: (one["turns"], one["summarised_turns"] <= one["turns"]) for one in listed}
    assert session["turn_count"] == len(session["turns"]) and counted["s2"] == (len(session["turns"]), True)


def test_who_lost_the_answer_finds_the_receipt(forgetting: Service) -> None:
    """Sent again, it is about nothing that is there: the answer says where the receipt is."""
    take_in(forgetting, "hana", *TALK)
    listed = forgetting.call("GET", "/memory/v1/memories?limit=100&kind=episodic", X_Memory_User="hana")["data"]
    wanted = next(one for one in listed if "Marjeta" in one["content"])
    lost = forget(forgetting, "hana", memory=wanted["id"])
    again = forget(forgetting, "hana", memory=wanted["id"])["error"]
    assert again["code"] == "not_found" and "GET /memory/v1/forget" in again["message"]
    asked: dict[str, Any] = {"query": "Where do I keep my carniolan bees?"}
    asked["confirm"] = forget(forgetting, "hana", **asked)["confirm"]
    second = forget(forgetting, "hana", **asked)
    again = forget(forgetting, "hana", **asked)["error"]
    assert again["code"] == "conflict" and "GET /memory/v1/forget" in again["message"]
    page = forgetting.call("GET", "/memory/v1/forget?limit=2", X_Memory_User="hana")
    assert [(one["id"], one["kind"], one["status"], one["complete"]) for one in page["data"]] == [
        (second["id"], "query", "ended", True),
        (lost["id"], "memory", "ended", True),
    ]
    assert forgetting.receipt(lost["id"], X_Memory_User="hana") == lost
    forged = base64.urlsafe_b64encode(b'["forget","desc","no-id"]').decode().rstrip("=")
    refused = forgetting.call("GET", f"/memory/v1/forget?cursor={forged}", X_Memory_User="hana")["error"]
    assert (refused["code"], refused["param"]) == ("memory_invalid", "cursor")


KEPT: dict[str, Any] = {
    "tasks": {"tasks": [{"title": "Order forty oak beams from the mill at Bled before the Easter market opens"}]},
    "entities": {"name": "Weir works", "type": "place", "notes": "They saw the beams on the floor above the old weir."},
    "personas": {"name": "miller", "description": "Answer as an old miller who knows every beam in the town."},
    "checkpoints": {"name": "june", "notes": "The roof of the northern boathouse is to be tarred in the second week."},
}


def test_an_answer_that_quotes_what_stays_leaves_no_trace_of_itself(forgetting: Service) -> None:
    """The words are the record's own, which stays: they are no proof that the answer does."""
    for kind, body in KEPT.items():
        assert "error" not in forgetting.call("POST", f"/memory/v1/{kind}", body, X_Memory_User="ivo")
    record = KEPT["tasks"]["tasks"][0]
    said = [record["title"], *(KEPT[kind][name] for kind, name in (("entities", "notes"), ("checkpoints", "notes")))]
    said.append(KEPT["personas"]["description"])
    take_in(forgetting, "ivo", {"session": "quotes", "role": "assistant", "content": " ".join(said)})
    receipt = forget(forgetting, "ivo", session="quotes")
    assert (receipt["complete"], receipt["probe"]["found"]) == (True, {}), receipt
    assert receipt["probe"]["word_runs_said_elsewhere"] > 0 and receipt["counts"]["turns"] == 1


def test_a_memory_that_was_changed_and_hidden_before_is_forgotten_in_full(forgetting: Service) -> None:
    """The audit log goes on naming its id: that a memory was changed is no trace of what it said."""
    take_in(forgetting, "vida", {"role": "user", "content": "My locker at the baths is number forty."})
    (one,) = forgetting.call("GET", "/memory/v1/memories?kind=episodic", X_Memory_User="vida")["data"]
    path = f"/memory/v1/memories/{one['id']}"
    assert forgetting.call("PATCH", path, {"importance": 0.9}, X_Memory_User="vida", If_Match="1")["version"] == 2
    assert forgetting.call("DELETE", path, X_Memory_User="vida")["deleted"] is True
    receipt = forget(forgetting, "vida", memory=one["id"])
    assert receipt["complete"] is True, receipt["probe"]


def test_bodies_that_name_none_or_two_are_refused(forgetting: Service) -> None:
    for body in ({}, {"user": "x", "project": "y"}, {"user": ""}, {"user": "x", "more": 1}, {"user": 7}):
        assert forget(forgetting, "x", **body)["error"]["code"] == "unprocessable"
    assert forget(forgetting, "nobody", session="never")["complete"] is True
    gone = forgetting.call("GET", "/memory/v1/forget/00000000-0000-7000-8000-000000000000")
    assert gone["error"]["code"] == "not_found"


def test_a_conversation_that_is_sent_again_after_it_was_forgotten_stays_forgotten(forgetting: Service) -> None:
    def chat(*messages: dict[str, str]) -> Any:
        body = {"model": "fake-model", "messages": list(messages), "max_tokens": 8}
        more = {"X_Memory_User": "hana", "X_Memory_Session": "talk", "Content_Type": "application/json"}
        return forgetting.call("POST", "/v1/chat/completions", body, **more)

    first = {"role": "user", "content": "Code: 4711"}
    answer = chat(first)["choices"][0]["message"]
    forgetting.settle()
    assert forget(forgetting, "hana", session="talk")["complete"] is True
    time.sleep(0.01)
    chat(first, {"role": "assistant", "content": answer["content"]}, {"role": "user", "content": "And what of pears?"})
    forgetting.settle()
    turns = forgetting.call("GET", "/memory/v1/sessions/talk", X_Memory_User="hana")["turns"]
    assert not any("4711" in turn["content"] and turn["role"] == "user" for turn in turns)
    assert any("pears" in turn["content"] for turn in turns)


def test_all_about_a_user_is_one_file_that_import_takes_and_forgetting_empties(forgetting: Service) -> None:
    take_in(forgetting, "iva", *TALK)
    take_in(
        forgetting, "iva", {"role": "user", "content": "The office plant is a fern."}, **{"X-Memory-Project": "work"}
    )

    def everything(user: str) -> list[dict[str, Any]]:
        request = urllib.request.Request(
            forgetting.url + "/memory/v1/export?of=user", headers={"X-Memory-User": user}, method="GET"
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return [json.loads(line) for line in answer.read().splitlines()]

    lines = everything("iva")
    assert {line["project"] for line in lines if line["type"] == "scope"} == {"default", "work"}
    assert {"turn", "memory", "session", "scope"} <= {line["type"] for line in lines}
    assert all("role" not in line for line in lines if line["type"] != "turn")
    assert any("fern" in line.get("content", "") for line in lines)
    assert all(line["event_ids"] for line in lines if line["type"] == "memory")
    told = take_in(forgetting, "iva-elsewhere", *lines)
    assert told[-1]["failed"] == 0 and told[-1]["done"] == len(lines)
    assert forget(forgetting, "iva", user="iva")["complete"] is True
    assert everything("iva") == []


STORED = """
WITH theirs AS (SELECT tenant_id, scope_id FROM scopes WHERE user_name = $1)
SELECT (SELECT count(*) FROM turns JOIN theirs USING (tenant_id, scope_id) WHERE content LIKE $2) AS turns,
       (SELECT count(*) FROM memory_versions JOIN theirs USING (tenant_id, scope_id) WHERE content LIKE $2) AS versions,
       (SELECT count(*) FROM retrievals JOIN theirs USING (tenant_id, scope_id)
        WHERE concat(candidates, placements) LIKE $3 OR sealed IS NOT NULL) AS retrievals,
       (SELECT count(*) FROM exchanges JOIN theirs USING (tenant_id, scope_id) WHERE sealed IS NOT NULL) AS exchanges,
       (SELECT count(*) FROM ledger JOIN theirs USING (tenant_id, scope_id) WHERE placed_sealed IS NOT NULL) AS ledger
"""


@pytest.mark.long
@pytest.mark.parametrize("shared", [False, True])
def test_an_answer_under_way_does_not_bring_back_what_it_was_given(forgetting: Service, shared: bool) -> None:
    """It was asked before and ends after the receipt: of somebody's own memory, and of a copy of another's."""
    owner, asker = ("jana", "klara") if shared else ("lea", "lea")
    take_in(forgetting, owner, {"session": "s1", "role": "user", "content": "The PIN of the safe is 8731."})
    (told,) = forgetting.call("GET", "/memory/v1/memories?kind=episodic", X_Memory_User=owner)["data"]
    given = told["id"]
    if shared:
        path = f"/memory/v1/memories/{told['id']}/share"
        given = forgetting.call("POST", path, {"to": "project"}, X_Memory_User=owner)["id"]
    asked, answer = "What is the PIN of the safe?", "It is 8731, the PIN of yours."
    said: list[Any] = []
    slow = {"x_fake_first_ms": "20000", "x_fake_reply": answer, "session": "safe"}
    asking = threading.Thread(target=lambda: said.append(ask(forgetting, asked, asker, **slow)))
    asking.start()
    time.sleep(2)
    receipt = forget(forgetting, owner, memory=told["id"])
    assert receipt["complete"] is True, receipt
    assert asking.is_alive() and not said
    asking.join()
    assert said[0].verdict == "injected", said
    forgetting.settle()
    (left,) = asyncio.run(rows(forgetting, STORED, asker, "%8731%", f"%{given}%"))
    assert set(left.values()) == {0}, left
    again = [turn("user", asked), turn("assistant", answer), turn("user", "And who has the key of it?")]
    ask(forgetting, again, asker, session="safe", mode="write")
    forgetting.settle()
    (left,) = asyncio.run(rows(forgetting, STORED, asker, "%8731%", f"%{given}%"))
    kept = forgetting.call("GET", "/memory/v1/sessions/safe", X_Memory_User=asker)["turns"]
    assert (left["turns"], left["versions"]) == (0, 0), left
    assert [one["content"] for one in kept if one["role"] == "user"] == [asked, again[2]["content"]]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_scrub_is_in_the_audit_log_too(forgetting: Service) -> None:
    own = {"session": "s1", "role": "user", "content": "My stall at the flea market in Kranj sells brass trumpets."}
    take_in(forgetting, "filip", *TALK, own)  # others here say what TALK says
    command = [sys.executable, "-m", "proxy", "forget", "--scrub", "--yes", "--data-dir", str(forgetting.data)]
    done = subprocess.run([*command, "--user", "filip"], capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, (done.stderr, json.loads(done.stdout)["scrub"]["found"])
    rows_of_it = forgetting.call("GET", "/memory/v1/audit?action=forget")["data"]
    asked = [(one["actor"], one["decision"], one["why"]) for one in rows_of_it if one["actor"] == "operator"]
    assert asked == [("operator", "allowed", "user")] and json.loads(done.stdout)["level"] == "physical"
    again = subprocess.run([*command, "--user", "filip"], capture_output=True, text=True, timeout=380, check=False)
    said = json.loads(again.stdout)
    assert (again.returncode, said["level"], said["scrub"]["word_runs"]) == (1, "logical", 0), again.stderr
    assert "not proved" in again.stderr


def test_a_scrub_of_what_is_no_id_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "proxy", "forget", "--scrub", "--yes", "--data-dir", str(tmp_path)]
    refused = subprocess.run([*command, "--memory", "no-id"], capture_output=True, text=True, check=False, timeout=60)
    assert (refused.returncode, "'no-id' is no id of a memory" in refused.stderr) == (1, True), refused.stderr
