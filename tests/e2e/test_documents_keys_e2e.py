"""Documents with keys: who may upload, what a key's files vouch for, and what a ceiling or a token shows of them."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.keyed import Keyed
from tests.e2e.test_documents_e2e import BOUNDARY, GUIDE, PIRAN, form

QUESTION = "Who is the harbour master of Piran?"


def upload(keyed: Keyed, secret: str, content: str = GUIDE, **fields: str) -> Any:
    body = form(content.encode(), **fields)
    kind = f"multipart/form-data; boundary={BOUNDARY}"
    return keyed.own(secret, "POST", "/memory/v1/documents?wait=true", body, Content_Type=kind)


def listed(keyed: Keyed, secret: str) -> list[str]:
    return [one["name"] for one in keyed.own(secret, "GET", "/memory/v1/documents")["data"]]


def found(keyed: Keyed, secret: str, **more: Any) -> list[dict[str, Any]]:
    candidates: list[dict[str, Any]] = keyed.own(secret, "POST", "/memory/v1/search", {"query": QUESTION, **more})[
        "candidates"
    ]
    return candidates


def test_a_file_vouches_for_as_much_as_its_key(keyed: Keyed) -> None:
    usual = keyed.make("shelf-usual", "--user", "shelf-usual")["secret"]
    trusts = ("--can", "memory:import:trusted", "--can", "memory:write", "--can", "memory:read:own")
    trusted = keyed.make("shelf-trusted", "--user", "shelf-trusted", *trusts)["secret"]
    assert upload(keyed, usual)["integrity"] == "imported"
    assert upload(keyed, trusted)["integrity"] == "user"
    assert found(keyed, usual)[0]["integrity"] == "imported"
    answer = keyed.ask(usual, QUESTION)
    keyed.settle(usual)
    record = keyed.own(usual, "GET", f"/memory/v1/retrievals/{answer.headers['X-Memory-Retrieval']}")
    assert PIRAN in record["block"] and "[document, imported, unverified]" in record["block"]


def test_who_may_not_write_may_not_upload_and_who_may_not_read_sees_none(keyed: Keyed) -> None:
    reads = keyed.make("shelf-reads", "--user", "shelf-split", "--can", "memory:read:own")["secret"]
    writes = keyed.make("shelf-writes", "--user", "shelf-split", "--can", "memory:write")["secret"]
    assert upload(keyed, reads)["error"]["code"] == "capability_missing"
    assert upload(keyed, writes)["upload"]["status"] == "done"
    assert keyed.own(writes, "GET", "/memory/v1/documents")["error"]["code"] == "capability_missing"
    (document,) = keyed.own(reads, "GET", "/memory/v1/documents")["data"]
    again = upload(keyed, writes)
    assert again.pop("upload").keys() == {"id", "status", "reason"}
    assert again == {"id": document["id"], "name": "guide.md"}, "nothing of what was there before"
    refused = keyed.own(reads, "DELETE", f"/memory/v1/documents/{document['id']}")
    assert refused["error"]["code"] == "capability_missing"


def test_what_is_above_a_ceiling_looks_like_what_is_not_there(keyed: Keyed) -> None:
    low = keyed.make("shelf-low", "--user", "shelf-ceilings")["secret"]
    high = keyed.make("shelf-high", "--user", "shelf-ceilings", "--sensitivity-max", "secret")["secret"]
    said = upload(keyed, high, sensitivity="confidential")
    assert said["sensitivity"] == "confidential" and listed(keyed, high) == ["guide.md"]
    assert listed(keyed, low) == [] and found(keyed, low) == []
    path = f"/memory/v1/documents/{said['id']}"
    for method in ("GET", "DELETE"):
        assert keyed.own(low, method, path)["error"]["code"] == "not_found"
    assert keyed.own(high, "GET", path)["data"][0]["content"].endswith("a month.")


def test_a_token_for_one_conversation_has_documents_of_that_one_alone(keyed: Keyed) -> None:
    secret = keyed.make("shelf-tokens", "--user", "shelf-tokens")["secret"]
    token = keyed.own(secret, "POST", "/memory/v1/tokens", {"session": "talk", "expires_in_s": 600})["token"]
    assert upload(keyed, token)["error"]["code"] == "scope_denied"
    assert upload(keyed, token, save="session", session="other")["error"]["code"] == "scope_denied"
    said = upload(keyed, token, save="session")
    assert said["save"] == "session" and said["session"] == "talk"
    whole = upload(keyed, secret, f"{PIRAN} Of the whole scope.", name="whole.md")
    assert listed(keyed, token) == ["guide.md"] and len(listed(keyed, secret)) == 2
    assert keyed.own(token, "GET", f"/memory/v1/documents/{whole['id']}")["error"]["code"] == "not_found"


def test_uploads_and_deletes_leave_audit_rows(keyed: Keyed) -> None:
    secret = keyed.make("shelf-audited", "--user", "shelf-audited")["secret"]
    admin = keyed.make("shelf-admin", "--can", "memory:admin")["secret"]
    said = upload(keyed, secret)
    keyed.own(secret, "DELETE", f"/memory/v1/documents/{said['id']}")
    for action in ("document.upload", "document.delete"):
        rows = keyed.own(admin, "GET", f"/memory/v1/audit?action={action}&id={said['id']}")["data"]
        assert rows and "guide" not in json.dumps(rows), "no name that a client chose"
