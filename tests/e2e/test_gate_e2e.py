"""The gate in front of what changes and takes away: a key or token changes, shares, forgets and is told of what it may
see, and of nothing else.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e import test_artifacts_e2e as artifacts
from tests.e2e import test_documents_e2e as documents
from tests.e2e.keyed import Keyed
from tests.service_fixture import serving
from tests.test_api_e2e import Api

USUAL = ("--can", "memory:read:own", "--can", "memory:write")
ERASES = (*USUAL, "--can", "memory:erase")
WORD = "Kaiserschmarrn"
MERGER = f"The code name of the merger is {WORD}."


@pytest.fixture(scope="module")
def keyed(upstream: str) -> Iterator[Keyed]:
    with serving(upstream, env={"MEMORY_PROXY_AUTH__MODE": "keys"}) as service:
        yield Keyed(service, workers=1)


def line(content: str, session: str, sensitivity: str = "internal", **more: str) -> dict[str, str]:
    return {"role": "user", "content": content, "session": session, "sensitivity": sensitivity, **more}


def put(keyed: Keyed, secret: str, *lines: dict[str, str], **headers: str) -> None:
    """Import lines with this key."""
    sent = {"Authorization": f"Bearer {secret}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    body = "\n".join(json.dumps(one) for one in lines).encode()
    request = urllib.request.Request(f"{keyed.service.url}/memory/v1/import", body, sent, method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        last = json.loads(answer.read().splitlines()[-1])
    assert (last["done"], last["failed"]) == (len(lines), 0), last


def token(keyed: Keyed, secret: str, **names: str) -> str:
    made = keyed.own(secret, "POST", "/memory/v1/tokens", {**names, "expires_in_s": 600})
    return str(made["token"])


def code(answer: dict[str, Any]) -> str:
    return str(answer.get("error", {}).get("code", "done"))


def forget(keyed: Keyed, secret: str, /, **body: Any) -> Any:
    return keyed.service.forget(body, Authorization=f"Bearer {secret}")


def listed(keyed: Keyed, secret: str, **headers: str) -> list[dict[str, Any]]:
    page: list[dict[str, Any]] = keyed.own(secret, "GET", "/memory/v1/memories?limit=100", **headers)["data"]
    return page


def one_with(keyed: Keyed, secret: str, word: str) -> dict[str, Any]:
    return next(one for one in listed(keyed, secret) if one["kind"] == "episodic" and word in one["content"])


# ------------------------------------------------------------ forgetting


def test_a_token_for_one_session_forgets_that_one_alone(keyed: Keyed) -> None:
    secret = keyed.make("forgets", "--user", "f-ada", *ERASES)["secret"]
    put(
        keyed,
        secret,
        line("The beekeeper of Bled has four hives.", "s1", source_id="f-hives"),
        line("The ferryman of Piran is called Anton.", "s2", source_id="f-ferry"),
    )
    of_s1 = token(keyed, secret, session="s1")
    ferry = one_with(keyed, secret, "ferryman")
    for whole in ({"user": "f-ada"}, {"project": "default"}, {"session": "s2"}):
        assert code(forget(keyed, of_s1, dry_run=True, **whole)) == "scope_denied"
        assert code(forget(keyed, of_s1, dry_run=False, **whole)) == "scope_denied"
    assert code(forget(keyed, of_s1, memory=ferry["id"])) == "not_found"
    assert code(forget(keyed, of_s1, source_id="f-ferry")) == "not_found"
    planned = forget(keyed, of_s1, query="Who is the ferryman of Piran?")
    assert ferry["id"] not in planned["sample_ids"] and planned["counts"]["turns"] <= 1
    assert forget(keyed, of_s1, source_id="f-hives")["complete"] is True
    assert forget(keyed, of_s1, session="s1")["complete"] is True
    assert [one["id"] for one in listed(keyed, secret)] == [ferry["id"]]


def test_a_token_for_one_session_forgets_no_user_whatever_else_it_may(keyed: Keyed) -> None:
    anybody = keyed.make("anybody", *ERASES, "--can", "act:any_user")["secret"]
    all_of_it = keyed.make("all-of-it", "--can", "memory:admin")["secret"]
    put(keyed, anybody, line("The baker of Ptuj rises at three.", "s1"), X_Memory_User="f-bob")
    for secret in (anybody, all_of_it):
        of_s1 = token(keyed, secret, session="s1")
        assert code(forget(keyed, of_s1, user="f-bob", dry_run=False)) == "scope_denied"
        assert code(forget(keyed, of_s1, project="default", dry_run=False)) == "scope_denied"
    assert listed(keyed, anybody, X_Memory_User="f-bob")


def test_a_project_is_everybodys_and_goes_by_whom_may_name_anybody(keyed: Keyed) -> None:
    cook = keyed.make("cook", "--project", "f-kitchen", *ERASES)["secret"]
    chef = keyed.make("chef", "--project", "f-kitchen", *ERASES, "--can", "act:any_user")["secret"]
    put(keyed, chef, line("The sieve hangs behind the door.", "s1"), X_Memory_User="f-cene")
    assert code(forget(keyed, cook, project="f-kitchen", dry_run=False)) == "scope_denied"
    assert listed(keyed, chef, X_Memory_User="f-cene")
    assert forget(keyed, chef, project="f-kitchen", dry_run=False)["complete"] is True


def test_what_is_above_a_ceiling_is_neither_counted_nor_forgotten(keyed: Keyed) -> None:
    low = keyed.make("f-low", "--user", "f-dora", *ERASES)["secret"]
    high = keyed.make("f-high", "--user", "f-dora", *ERASES, "--sensitivity-max", "secret")["secret"]
    put(keyed, high, line(MERGER, "board", "confidential", source_id="f-merger"), line("The room is booked.", "board"))
    merger = one_with(keyed, high, WORD)
    planned = forget(keyed, low, query="What is the code name of the merger?")
    assert planned["counts"]["memories"] <= 1 and merger["id"] not in planned["sample_ids"]
    assert forget(keyed, low, query="What is the code name of the merger?", dry_run=False)["complete"] is True
    assert code(forget(keyed, low, memory=merger["id"])) == "not_found"
    assert code(forget(keyed, low, source_id="f-merger")) == code(forget(keyed, low, source_id="f-none")) == "not_found"
    assert code(forget(keyed, low, session="board")) == "scope_denied"
    assert one_with(keyed, high, WORD)["id"] == merger["id"]
    assert forget(keyed, high, memory=merger["id"])["complete"] is True


def test_who_may_not_read_forgets_by_name_and_not_by_search(keyed: Keyed) -> None:
    reads = keyed.make("f-reads", "--user", "f-ema", *USUAL)["secret"]
    clears = keyed.make("f-clears", "--user", "f-ema", "--can", "memory:erase")["secret"]
    put(keyed, reads, line("The tailor of Idrija mends lace.", "s1"), line("The smith forges.", "s2"))
    assert code(forget(keyed, clears, query="Who mends lace?")) == "capability_missing"
    assert forget(keyed, clears, session="s1")["complete"] is True
    assert forget(keyed, clears, memory=one_with(keyed, reads, "smith")["id"])["complete"] is True
    assert listed(keyed, reads) == []


# ------------------------------------------------------------ sharing


def test_what_a_key_may_not_see_it_neither_shares_nor_takes_back(keyed: Keyed) -> None:
    shares = (*USUAL, "--can", "memory:share:project")
    low = keyed.make("s-low", "--user", "s-ada", *shares, "--sensitivity-max", "public")["secret"]
    full = keyed.make("s-full", "--user", "s-ada", *shares, "--sensitivity-max", "secret")["secret"]
    put(keyed, full, line("The ferryman of Piran is Anton.", "s1"), line(MERGER, "s2", "confidential"))
    of_s2 = token(keyed, full, session="s2")
    ferry, merger = one_with(keyed, full, "ferryman"), one_with(keyed, full, WORD)

    def ask(secret: str, what: str, one: dict[str, Any]) -> str:
        return code(keyed.own(secret, "POST", f"/memory/v1/memories/{one['id']}/{what}", {"to": "project"}))

    assert [ask(secret, "share", ferry) for secret in (low, of_s2)] == ["not_found", "not_found"]
    assert ask(low, "share", merger) == "not_found", "not what it is labelled"
    assert ask(full, "share", merger) == "unprocessable"
    assert ask(full, "share", ferry) == "done"
    assert [ask(secret, "unshare", ferry) for secret in (low, of_s2)] == ["not_found", "not_found"]
    assert ask(full, "unshare", ferry) == "done"


def test_an_admin_takes_back_anybodys_copy_below_its_ceiling(keyed: Keyed) -> None:
    full = keyed.make("s-cene", "--user", "s-cene", *USUAL, "--can", "memory:share:project")["secret"]
    admin = keyed.make("s-admin", "--user", "s-boss", "--can", "memory:admin")["secret"]
    low = keyed.make("s-low-admin", "--user", "s-boss", "--can", "memory:admin", "--sensitivity-max", "public")[
        "secret"
    ]
    put(keyed, full, line("The smith of Kropa forges nails.", "s1"))
    put(keyed, admin, line("I am the one in charge.", "s1"))
    smith = one_with(keyed, full, "Kropa")
    made = keyed.own(full, "POST", f"/memory/v1/memories/{smith['id']}/share", {"to": "project"})
    path = f"/memory/v1/memories/{made['id']}/unshare"
    assert code(keyed.own(low, "POST", path, {"to": "project"})) == "not_found"
    assert keyed.own(admin, "POST", path, {"to": "project"})["ids"] == [made["id"]]


# ------------------------------------------------------------ who may write and not read

TRUSTED = ("--can", "memory:import:trusted")


def test_who_may_not_read_is_told_no_memory_by_changing_it(keyed: Keyed) -> None:
    reads = keyed.make("w-reads", "--user", "w-ada", *USUAL, *TRUSTED)["secret"]
    writes = keyed.make("w-writes", "--user", "w-ada", "--can", "memory:write")["secret"]
    put(keyed, reads, line("I prefer green tea.", "s1"))
    (liked,) = keyed.own(reads, "GET", "/memory/v1/preferences")["data"]
    assert keyed.own(writes, "POST", "/memory/v1/preferences/reset", {})["memories"] == []
    path = f"/memory/v1/memories/{liked['memory_id']}"
    changed = keyed.own(writes, "PATCH", path, {"pinned": True}, If_Match=str(liked["version"]))
    assert changed == {"id": liked["memory_id"], "version": liked["version"] + 1}
    assert keyed.own(writes, "DELETE", path)["deleted"] is True
    assert keyed.own(writes, "POST", f"{path}/undelete") == changed
    assert keyed.own(reads, "GET", path)["pinned"] is True


def test_a_change_that_says_no_label_lowers_none(keyed: Keyed) -> None:
    secret = keyed.make("w-cleared", "--user", "w-cene", *USUAL, "--sensitivity-max", "confidential")["secret"]
    put(keyed, secret, line(MERGER, "s1", "confidential"))
    known = one_with(keyed, secret, WORD)
    path, version = f"/memory/v1/memories/{known['id']}", str(known["version"])
    changed = keyed.own(secret, "PATCH", path, {"pinned": True}, If_Match=version)
    assert (changed["pinned"], changed["sensitivity"]) == (True, "confidential")
    lowered = keyed.own(secret, "PATCH", path, {"sensitivity": "internal"}, If_Match=str(changed["version"]))
    assert code(lowered) == "capability_missing"


def test_who_may_not_read_is_told_no_record_by_bringing_it_back(keyed: Keyed) -> None:
    reads = keyed.make("w-keeps", "--user", "w-bor", *USUAL)["secret"]
    writes = keyed.make("w-brings", "--user", "w-bor", "--can", "memory:write")["secret"]
    kept: dict[str, tuple[dict[str, Any], Callable[[Any], str]]] = {
        "tasks": ({"tasks": [{"title": "Repair the gutter"}]}, lambda said: str(said["data"][0]["id"])),
        "personas": ({"name": "terse", "description": "I like short answers."}, lambda said: "terse"),
        "entities": ({"name": "Marjeta", "type": "person"}, lambda said: str(said["id"])),
        "checkpoints": ({"name": "gutter", "notes": "The ladder is in the shed."}, lambda said: "gutter"),
    }
    for kind, (body, named) in kept.items():
        made = keyed.own(reads, "POST", f"/memory/v1/{kind}", body)
        path = f"/memory/v1/{kind}/{named(made)}"
        assert code(keyed.own(reads, "DELETE", path)) == "done", (kind, made)
        assert code(keyed.own(writes, "POST", f"{path}/undelete")) == "not_found", kind
        assert code(keyed.own(reads, "POST", f"{path}/undelete")) == "done", kind


def test_who_may_not_read_is_told_nothing_of_what_it_hides_or_ends(keyed: Keyed) -> None:
    reads = keyed.make("w-doc-reads", "--user", "w-dora", *USUAL)["secret"]
    writes = keyed.make("w-doc-writes", "--user", "w-dora", "--can", "memory:write")["secret"]
    made = document(keyed, reads, f"# Salaries\n\n{MERGER}\n", name=f"{WORD}.md")
    hidden = keyed.own(writes, "DELETE", f"/memory/v1/documents/{made['id']}")
    assert hidden.keys() == {"id", "deleted_at", "undo_until"} and hidden["id"] == made["id"]
    put(keyed, reads, line("Lunch is at noon.", "lunch"))
    assert keyed.own(writes, "POST", "/memory/v1/sessions/lunch/end").keys() == {"id", "ended_at"}
    assert keyed.own(reads, "POST", "/memory/v1/sessions/lunch/end")["turns"] == 1


def test_what_a_key_may_not_see_is_answered_word_for_word_as_what_is_not_there(keyed: Keyed) -> None:
    low = keyed.make("n-low", "--user", "n-ada", *USUAL, "--can", "memory:share:project")["secret"]
    high = keyed.make("n-high", "--user", "n-ada", *USUAL, "--sensitivity-max", "secret")["secret"]
    label, none = {"sensitivity": "confidential"}, "01a214e5-0000-7000-8000-000000000000"
    put(keyed, high, line(MERGER, "board", "confidential"))
    kinds: dict[str, tuple[str, str]] = {
        "memories": (one_with(keyed, high, WORD)["id"], none),
        "documents": (document(keyed, high, f"# Salaries\n\n{MERGER}\n", **label)["id"], none),
        "artifacts": (artifact(keyed, high, b"a ledger\n", **label)["id"], none),
        "personas": ("board", "nobody"),
        "entities": (
            keyed.own(high, "POST", "/memory/v1/entities", {"name": "Halyard", "type": "project", **label})["id"],
            none,
        ),
        "tasks": (
            keyed.own(high, "POST", "/memory/v1/tasks", {"tasks": [{"title": MERGER, **label}]})["data"][0]["id"],
            none,
        ),
    }
    keyed.own(high, "POST", "/memory/v1/personas", {"name": "board", "description": MERGER, **label})

    def same(secret: str, method: str, kind: str, path: str, body: Any = None) -> None:
        seen, unseen = [
            json.dumps(keyed.own(secret, method, f"/memory/v1/{kind}/{one}{path}", body, If_Match="1")).replace(one, "")
            for one in kinds[kind]
        ]
        assert seen == unseen and "not_found" in seen, (method, kind, path)

    for kind in kinds:
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/undelete")):
            same(low, method, kind, path)
    same(low, "PATCH", "memories", "", {"pinned": True})
    same(low, "POST", "memories", "/share", {"to": "project"})
    for kind, (one, _) in kinds.items():
        assert code(keyed.own(high, "DELETE", f"/memory/v1/{kind}/{one}")) == "done", kind
        for method, path in (("GET", ""), ("POST", "/undelete")):
            same(low, method, kind, path)
        assert code(keyed.own(high, "POST", f"/memory/v1/{kind}/{one}/undelete")) == "done", kind


def test_a_token_for_one_session_is_told_of_no_other_and_of_nothing_in_it(keyed: Keyed) -> None:
    secret = keyed.make("n-tokens", "--user", "n-bor", *USUAL)["secret"]
    put(keyed, secret, line("The ferryman of Piran is Anton.", "ferry"), line("Lunch is at noon.", "lunch"))
    saved = {"name": "crossing", "session": "ferry", "notes": "Ask about the rope."}
    assert keyed.own(secret, "POST", "/memory/v1/checkpoints", saved)["version"] == 1
    answer = keyed.ask(secret, "Who is the ferryman?", session="ferry")
    keyed.settle(secret)
    given = answer.headers["X-Memory-Retrieval"]
    of_lunch, none = token(keyed, secret, session="lunch"), "01a214e5-0000-7000-8000-000000000000"

    def same(method: str, path: str, there: str, unknown: str) -> None:
        told = [keyed.own(of_lunch, method, f"/memory/v1/{path.format(one)}") for one in (there, unknown)]
        assert told[0] == told[1] and code(told[0]) == "not_found", path

    same("GET", "sessions/{}", "ferry", "nowhere")
    same("POST", "sessions/{}/end", "ferry", "nowhere")
    same("GET", "retrievals/{}", given, none)
    for path in ("checkpoints/{}", "checkpoints/{}?version=9", "checkpoints/{}/diff?from=1&to=9"):
        same("GET", path, "crossing", "nowhere")
    assert code(keyed.own(secret, "DELETE", "/memory/v1/checkpoints/crossing")) == "done"
    same("GET", "checkpoints/{}", "crossing", "nowhere")
    same("POST", "checkpoints/{}/undelete", "crossing", "nowhere")


def test_a_token_for_one_session_reads_nothing_of_the_tenant_whatever_it_may(keyed: Keyed) -> None:
    admin = keyed.make("n-admin", "--user", "n-dora", "--can", "memory:admin")["secret"]
    mine = keyed.make("n-asks", "--user", "n-ema", *ERASES)["secret"]
    put(keyed, mine, line("The cooper of Vipava makes barrels.", "s1"))
    erasure = f"/memory/v1/forget/{forget(keyed, mine, session='s1')['id']}"
    of_s1 = token(keyed, admin, session="s1")
    for path in ("/memory/v1/audit", "/memory/v1/queue/dead"):
        assert code(keyed.own(of_s1, "GET", path)) == "scope_denied", path
        assert code(keyed.own(admin, "GET", path)) == "done", path
    assert code(keyed.own(of_s1, "GET", erasure)) == "not_found"
    assert keyed.own(admin, "GET", erasure)["complete"] is True


def test_a_token_for_one_session_keeps_nothing_for_the_whole_scope(keyed: Keyed) -> None:
    secret = keyed.make("n-scope", "--user", "n-cene", *USUAL)["secret"]
    of_s1 = token(keyed, secret, session="s1")
    whole = {
        "personas": {"name": "terse", "description": "I like short answers."},
        "entities": {"name": "Marjeta", "type": "person"},
    }
    for kind, body in whole.items():
        assert code(keyed.own(of_s1, "POST", f"/memory/v1/{kind}", body)) == "not_found", kind
        assert code(keyed.own(secret, "POST", f"/memory/v1/{kind}", body)) == "done", kind


def test_a_chat_is_told_of_no_persona_that_the_key_may_not_see(keyed: Keyed) -> None:
    low = keyed.make("c-low", "--user", "c-ada", *USUAL)["secret"]
    high = keyed.make("c-high", "--user", "c-ada", *USUAL, "--sensitivity-max", "secret")["secret"]
    persona = {"name": "board", "description": "Likes short answers.", "sensitivity": "confidential"}
    keyed.own(high, "POST", "/memory/v1/personas", persona)
    asked = {"model": "fake-model", "messages": [{"role": "user", "content": "Good morning"}]}

    def ask(secret: str, name: str) -> Any:
        more = {"Authorization": f"Bearer {secret}", "X_Memory_Persona": name, "Content_Type": "application/json"}
        return keyed.service.call("POST", "/v1/chat/completions", asked, **more)

    assert ask(low, "board") == ask(low, "nobody") and code(ask(low, "board")) == "not_found"
    assert code(ask(token(keyed, high, session="s1"), "board")) == "not_found"
    assert code(ask(high, "board")) == "done"


def test_all_preferences_are_those_that_the_key_may_see(keyed: Keyed) -> None:
    low = keyed.make("w-low", "--user", "w-cene", *USUAL, "--sensitivity-max", "public")["secret"]
    full = keyed.make("w-full", "--user", "w-cene", *USUAL, *TRUSTED)["secret"]
    put(keyed, full, line("I prefer green tea.", "s1", "public"), line("I like raspberry jam.", "s2"))
    known = {one["statement"]: one["memory_id"] for one in keyed.own(full, "GET", "/memory/v1/preferences")["data"]}
    jam = next(known.pop(said) for said in list(known) if "raspberry" in said)
    assert keyed.own(low, "POST", "/memory/v1/preferences/reset", {}).get("memories") == list(known.values())
    assert [one["memory_id"] for one in keyed.own(full, "GET", "/memory/v1/preferences")["data"]] == [jam]
    assert code(keyed.own(low, "POST", "/memory/v1/preferences/reset", {"memories": [jam]})) == "not_found"


# ------------------------------------------------------------ files


def document(keyed: Keyed, secret: str, content: str, **fields: str) -> Any:
    body = documents.form(content.encode(), "salaries.md", **fields)
    kind = f"multipart/form-data; boundary={documents.BOUNDARY}"
    return keyed.own(secret, "POST", "/memory/v1/documents?wait=true", body, Content_Type=kind)


def test_a_document_is_replaced_by_who_may_see_and_change_it(keyed: Keyed) -> None:
    low = keyed.make("d-low", "--user", "d-ada", *USUAL)["secret"]
    high = keyed.make("d-high", "--user", "d-ada", *USUAL, "--sensitivity-max", "secret")["secret"]
    admin = keyed.make("d-admin", "--user", "d-ada", "--can", "memory:admin", "--sensitivity-max", "secret")["secret"]
    made = document(keyed, high, f"# Salaries\n\n{MERGER}\n", sensitivity="confidential")
    refused = document(keyed, low, "# Nothing\n\nThe canteen opens at noon.\n")
    assert code(refused) == "conflict" and "confidential" not in json.dumps(refused)
    lowered = document(keyed, high, "# Nothing\n\nThe canteen opens at noon.\n")
    assert code(lowered) == "capability_missing", "to lower a label takes memory:admin"
    path = f"/memory/v1/documents/{made['id']}"
    assert WORD in keyed.own(high, "GET", path)["data"][0]["content"]
    assert document(keyed, low, "# Mine\n\nThe pool is closed.\n", name="pool.md")["upload"]["status"] == "done"
    assert document(keyed, low, "# Mine\n\nThe pool is open.\n", name="pool.md")["version"] == 2
    assert document(keyed, high, f"# Salaries\n\n{MERGER} Twice.\n", sensitivity="confidential")["version"] == 2
    assert document(keyed, admin, "# Nothing\n\nThe canteen opens at noon.\n")["sensitivity"] == "internal"


def artifact(keyed: Keyed, secret: str, content: bytes, **fields: str) -> Any:
    body, kind = artifacts.form(content, "build.log", "text/plain", **fields)
    return keyed.own(secret, "POST", "/memory/v1/artifacts", body, Content_Type=kind)


def test_the_same_bytes_show_no_file_that_the_key_may_not_see(keyed: Keyed) -> None:
    low = keyed.make("a-low", "--user", "a-ada", *USUAL)["secret"]
    high = keyed.make("a-high", "--user", "a-ada", *USUAL, "--sensitivity-max", "secret")["secret"]
    content = b"cargo build started\nlinker met no symbol\n"
    made = artifact(keyed, high, content, caption=MERGER, session="s1", sensitivity="confidential")
    of_s2 = token(keyed, high, session="s2")
    for secret in (low, of_s2):
        mine = artifact(keyed, secret, content, caption="Our build.")
        assert mine["reused"] is False and mine["id"] != made["id"] and WORD not in json.dumps(mine)
        again = artifact(keyed, secret, content, caption="Said again.")
        assert (again["reused"], again["id"], again["caption"]) == (True, mine["id"], "Our build.")
    path = f"/memory/v1/artifacts/{made['id']}"
    assert keyed.own(high, "GET", path)["caption"] == MERGER
    assert code(keyed.own(low, "DELETE", f"/memory/v1/artifacts/{mine['id']}")) == "done"
    assert code(keyed.own(high, "GET", path)) == "done"


def test_the_same_bytes_sent_as_more_sensitive_are(keyed: Keyed) -> None:
    low = keyed.make("a-usual", "--user", "a-bor", *USUAL)["secret"]
    high = keyed.make("a-cleared", "--user", "a-bor", *USUAL, "--sensitivity-max", "secret")["secret"]
    content = b"the ledger of the mill\n"
    made = artifact(keyed, high, content, caption="A ledger.")
    raised = artifact(keyed, high, content, sensitivity="secret")
    assert (raised["id"], raised["reused"], raised["sensitivity"]) == (made["id"], True, "secret")
    assert raised["caption"] == "A ledger."
    assert artifact(keyed, high, content)["sensitivity"] == "secret", "and is not lowered"
    path = f"/memory/v1/artifacts/{made['id']}"
    assert code(keyed.own(low, "GET", path)) == "not_found" and keyed.own(high, "GET", path)["sensitivity"] == "secret"


# ------------------------------------------------------------ records that name others


def test_a_tie_that_a_key_may_not_see_stays_and_looks_like_none(keyed: Keyed) -> None:
    low = keyed.make("e-low", "--user", "e-ada", *USUAL)["secret"]
    high = keyed.make("e-high", "--user", "e-ada", *USUAL, "--sensitivity-max", "secret")["secret"]
    ids = [
        keyed.own(high, "POST", "/memory/v1/entities", {"name": name, "type": "person"})["id"]
        for name in ("Marjeta", "Anton")
    ]
    tie = {"source": ids[0], "type": "sister", "target": ids[1], "sensitivity": "confidential"}
    made = keyed.own(high, "POST", "/memory/v1/relationships", tie)
    path = f"/memory/v1/relationships/{made['id']}"
    assert code(keyed.own(low, "DELETE", path)) == "not_found"
    near = keyed.own(high, "GET", f"/memory/v1/entities/{ids[0]}/neighbours")
    assert [one["id"] for one in near["relationships"]] == [made["id"]]
    assert code(keyed.own(high, "DELETE", path)) == "done"


def test_a_circle_of_ties_is_named_to_who_may_see_them(keyed: Keyed) -> None:
    low = keyed.make("e-ties", "--user", "e-cene", *USUAL)["secret"]
    high = keyed.make("e-tied", "--user", "e-cene", *USUAL, "--sensitivity-max", "secret")["secret"]

    def place(secret: str, name: str, **more: str) -> str:
        made = keyed.own(secret, "POST", "/memory/v1/entities", {"name": name, "type": "place", **more})
        return str(made["id"])

    yard, pier, vault = place(low, "Yard"), place(low, "Pier"), place(high, "Vault", sensitivity="confidential")
    ties = [{"source": one, "type": "part_of", "target": other} for one, other in ((pier, vault), (vault, yard))]
    assert [code(keyed.own(high, "POST", "/memory/v1/relationships", tie)) for tie in ties] == ["done", "done"]
    closing = {"source": yard, "type": "part_of", "target": pier}
    for secret, told in ((low, False), (high, True)):
        refused = keyed.own(secret, "POST", "/memory/v1/relationships", closing)
        assert code(refused) == "conflict" and (vault in refused["error"]["message"]) is told


def test_a_name_that_is_taken_names_whom_the_key_may_see(keyed: Keyed) -> None:
    low = keyed.make("e-named", "--user", "e-bor", *USUAL)["secret"]
    high = keyed.make("e-names", "--user", "e-bor", *USUAL, "--sensitivity-max", "secret")["secret"]
    made = keyed.own(
        high, "POST", "/memory/v1/entities", {"name": "Halyard", "type": "project", "sensitivity": "confidential"}
    )
    for secret, told in ((low, False), (high, True)):
        refused = keyed.own(secret, "POST", "/memory/v1/entities", {"name": "Halyard", "type": "project"})
        assert code(refused) == "conflict"
        assert (made["id"] in refused["error"]["message"]) is told


def test_a_task_waits_for_tasks_that_its_author_may_see(keyed: Keyed) -> None:
    low = keyed.make("t-low", "--user", "t-ada", *USUAL)["secret"]
    high = keyed.make("t-high", "--user", "t-ada", *USUAL, "--sensitivity-max", "secret")["secret"]

    def task(secret: str, title: str, **more: Any) -> Any:
        return keyed.own(secret, "POST", "/memory/v1/tasks", {"tasks": [{"title": title, **more}]})

    hidden = task(high, MERGER, sensitivity="confidential")["data"][0]
    none = "01a214e5-0000-7000-8000-000000000000"
    refused = task(low, "Paint the fence", needs=[hidden["id"]])
    unknown = task(low, "Paint the fence", needs=[none])
    assert code(refused) == code(unknown) == "not_found"
    assert refused["error"]["message"].replace(hidden["id"], none) == unknown["error"]["message"]
    fence = task(low, "Paint the fence")["data"][0]
    path, version = f"/memory/v1/tasks/{fence['id']}", str(fence["version"])
    assert code(keyed.own(low, "PATCH", path, {"needs": [hidden["id"]]}, If_Match=version)) == "not_found"
    waits = keyed.own(high, "PATCH", path, {"needs": [hidden["id"]]}, If_Match=version)
    assert waits["waits_for"] == [hidden["id"]]
    seen = keyed.own(low, "GET", path)
    assert seen["waits_for"] == [], "not whether it is done"
    again = keyed.own(low, "PATCH", path, {"notes": "Green.", "needs": seen["needs"]}, If_Match=str(seen["version"]))
    assert again["needs"] == [hidden["id"]], "what it needed it goes on needing"


def test_a_checkpoint_takes_along_no_persona_that_the_key_may_not_see(keyed: Keyed) -> None:
    low = keyed.make("p-low", "--user", "p-ada", *USUAL)["secret"]
    high = keyed.make("p-high", "--user", "p-ada", *USUAL, "--sensitivity-max", "secret")["secret"]
    persona = {"name": "board", "description": MERGER, "sensitivity": "confidential"}
    assert code(keyed.own(high, "POST", "/memory/v1/personas", persona)) == "done"

    def save(secret: str, name: str, persona: str) -> Any:
        body = {"name": name, "notes": "The ladder is in the shed.", "persona": persona}
        return keyed.own(secret, "POST", "/memory/v1/checkpoints", body)

    refused, unknown = save(low, "one", "board"), save(low, "one", "nobody")
    assert refused == unknown and code(refused) == "not_found"
    assert code(save(high, "two", "board")) == "done"


def test_what_a_checkpoint_says_above_a_ceiling_is_neither_replaced_nor_deleted(keyed: Keyed) -> None:
    low = keyed.make("b-low", "--user", "b-ada", *USUAL)["secret"]
    high = keyed.make("b-high", "--user", "b-ada", *USUAL, "--sensitivity-max", "secret")["secret"]
    path = "/memory/v1/checkpoints/board"
    body = {"name": "board", "notes": MERGER, "sensitivity": "confidential"}
    made = keyed.own(high, "POST", "/memory/v1/checkpoints", body)
    assert keyed.own(low, "GET", path)["withheld"] == 1
    assert code(keyed.own(low, "PATCH", path, {"notes": "Nothing."}, If_Match="1")) == "scope_denied"
    assert code(keyed.own(low, "DELETE", path)) == "scope_denied"
    assert code(keyed.own(low, "POST", "/memory/v1/tools/checkpoint_delete", {"name": "board"})) == "scope_denied"
    assert keyed.own(high, "GET", path)["parts"] == made["parts"]
    assert keyed.own(low, "PATCH", path, {"goals": ["Open by May"]}, If_Match="1")["withheld"] == 1
    assert code(keyed.own(high, "DELETE", path)) == "done"


# ------------------------------------------------------------ receipts


def test_an_import_replaces_no_turn_that_the_key_may_not_see(keyed: Keyed) -> None:
    high = keyed.make("sees all", "--user", "i-ada", *USUAL, "--sensitivity-max", "secret")["secret"]
    low = keyed.make("sees little", "--user", "i-ada", *USUAL, "--sensitivity-max", "internal")["secret"]
    put(
        keyed,
        high,
        line(MERGER, "s", "secret", source_id="i-merger"),
        line("Lunch is at noon.", "s", source_id="i-lunch"),
    )
    api = Api(keyed.service.url, "")
    api._scope = {"Authorization": f"Bearer {low}"}
    lines = [line("It is called Punschkrapfen.", "s", source_id="i-merger"), line("At one.", "s", source_id="i-lunch")]
    for query, done in (("", 0), ("?on_conflict=update", 1)):
        *told, last = api.take_in(*lines, query=query)
        errors = {one["line"]: one["error"] for one in told if "error" in one}
        assert (errors[1], last["done"]) == ("its source_id is taken: choose another", done)
    assert {one["content"] for one in listed(keyed, high) if one["kind"] == "episodic"} == {MERGER, "At one."}


def test_an_import_changes_no_person_that_the_key_may_not_see(keyed: Keyed) -> None:
    high = keyed.make("k-high", "--user", "k-ada", *USUAL, *TRUSTED, "--sensitivity-max", "secret")["secret"]
    low = keyed.make("k-low", "--user", "k-ada", *USUAL, *TRUSTED)["secret"]
    put(keyed, high, line("My sister Marjeta came by yesterday.", "s"))

    def learnt() -> dict[str, Any]:
        (one,) = keyed.own(high, "GET", "/memory/v1/entities?name=Marjeta")["data"]
        return dict(one)

    fact = f"/memory/v1/memories/{learnt()['named_by'][0]}"
    keyed.own(high, "PATCH", fact, {"sensitivity": "confidential"}, If_Match="1")
    known = learnt()
    assert known["learnt"] and known["sensitivity"] == "confidential"
    one = {"type": "entity", "of": known["type"], "name": "Marjeta", "notes": "She sails."}
    ids = {"id": "01a214e5-0000-7000-8000-000000000001", "memory_id": "01a214e5-0000-7000-8000-000000000002"}
    api = Api(keyed.service.url, "")
    api._scope = {"Authorization": f"Bearer {low}"}
    *told, last = api.take_in({**one, **ids})
    assert (last["failed"], learnt()) == (1, known), told


def test_an_erasure_is_shown_in_the_scope_that_asked_for_it(keyed: Keyed) -> None:
    mine = keyed.make("r-mine", "--user", "r-ada", *ERASES)["secret"]
    other = keyed.make("r-other", "--user", "r-bor", *ERASES)["secret"]
    admin = keyed.make("r-admin", "--can", "memory:admin")["secret"]
    put(keyed, mine, line("The cooper of Vipava makes barrels.", "s1"))
    made = forget(keyed, mine, session="s1")["id"]
    shown = [keyed.own(secret, "GET", f"/memory/v1/forget/{made}") for secret in (mine, other, admin)]
    assert [one.get("complete") for one in shown] == [True, None, True]
    assert code(shown[1]) == "not_found"
