"""Documents on a running service: uploaded, found with their place, given to the model, taken away again."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from bench.documents_files import docx, paragraphs, pdf, pdf_bomb, sound
from tests.e2e.talk import ask
from tests.service_fixture import Service, serving, stand_in

pytestmark = pytest.mark.long  # a service of its own

BOUNDARY = "edge"
BYTES_MAX = 400_000
PIRAN = "The harbour master of Piran is called Halcyon Vidmar, and she keeps three wooden boats."
GUIDE = f"# Piran\n\n{PIRAN}\n\n## Berths\n\nA berth on the east pier costs two hundred and forty euros a month.\n"


@pytest.fixture(scope="module")
def shelf() -> Iterator[Service]:
    """A service of this file's own, with small bounds."""
    env = {"MEMORY_PROXY_DOCUMENTS__BYTES_MAX": str(BYTES_MAX), "MEMORY_PROXY_LIMITS__BODY_IDLE_TIMEOUT_S": "2"}
    with stand_in() as upstream, serving(upstream, env=env) as service:
        yield service


def form(content: bytes, filename: str = "guide.md", kind: str | None = None, **fields: str) -> bytes:
    """The body of an upload."""
    parts = [f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode() for name, value in fields.items()]
    typed = f"\r\nContent-Type: {kind}" if kind else ""
    head = f'Content-Disposition: form-data; name="file"; filename="{filename}"{typed}\r\n\r\n'
    parts.append(head.encode() + content)
    edge = f"--{BOUNDARY}".encode()
    return b"".join(edge + b"\r\n" + part + b"\r\n" for part in parts) + edge + b"--\r\n"


def call(
    service: Service, method: str, path: str, user: str, body: bytes | None = None, /, **headers: str
) -> tuple[int, Any]:
    """Status and parsed answer."""
    connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=100)
    sent = {"X-Memory-User": user, **{name.replace("_", "-"): value for name, value in headers.items()}}
    if body is not None:
        sent.setdefault("Content-Type", f"multipart/form-data; boundary={BOUNDARY}")
    try:
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        raw = answer.read()
    finally:
        connection.close()
    return answer.status, json.loads(raw) if raw else None


def upload(service: Service, user: str, content: bytes | str, filename: str = "guide.md", **fields: str) -> Any:
    """Upload and wait until it is stored."""
    raw = content.encode() if isinstance(content, str) else content
    status, said = call(service, "POST", "/memory/v1/documents?wait=true", user, form(raw, filename, **fields))
    assert status == 200, said
    assert said["upload"]["status"] == "done", said
    return said


def search(service: Service, user: str, query: str, **more: Any) -> list[dict[str, Any]]:
    body = json.dumps({"query": query, "k": 10, **more}).encode()
    _, found = call(service, "POST", "/memory/v1/search", user, body, Content_Type="application/json")
    candidates: list[dict[str, Any]] = found["candidates"]
    return candidates


def documents(service: Service, user: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = call(service, "GET", "/memory/v1/documents", user)[1]["data"]
    return found


# ---------------------------------------------------------------- found and given


def test_an_uploaded_document_is_found_with_its_place_and_given_to_the_model(shelf: Service, user: str) -> None:
    said = upload(shelf, user, GUIDE)
    assert (said["name"], said["version"], said["media_type"]) == ("guide.md", 1, "text/markdown")
    assert said["given"] == "inline" and said["save"] == "memory" and said["session"] is None
    best = search(shelf, user, "Who is the harbour master of Piran?")[0]
    assert best["kind"] == "document" and best["admitted"]
    assert best["document"] == {
        "id": said["id"], "name": "guide.md", "heading": ["Piran"], "page": None, "page_to": None,
        "start": GUIDE.index("Piran"), "end": len(GUIDE) - 1,
    }  # fmt: skip
    answer = ask(shelf, "Who is the harbour master of Piran?", user)
    assert answer.verdict == "injected"
    shelf.settle()
    _, record = call(shelf, "GET", f"/memory/v1/retrievals/{answer.memory('retrieval')}", user)
    assert PIRAN in record["block"]
    cited = next(one for one in record["candidates"] if one["kind"] == "document")
    assert cited["document"]["id"] == said["id"]


def test_every_type_is_taken_and_a_pdf_is_cited_by_page(shelf: Service, user: str) -> None:
    pages = pdf([["Contents of the book."], [PIRAN], ["The end of the book."]], compress=True)
    upload(shelf, user, pages, "book.pdf")
    best = search(shelf, user, "Who is the harbour master of Piran?")[0]
    assert best["document"]["name"] == "book.pdf"
    assert best["document"]["page"] == 1 and best["document"]["page_to"] == 3
    upload(shelf, user, docx(["A letter about the silver heron of Radovljica."]), "letter.docx")
    for kind in ("txt", "csv", "json", "html"):
        upload(shelf, user, sound(kind, 3_000), f"report.{kind}")
    assert search(shelf, user, "the silver heron of Radovljica")[0]["document"]["name"] == "letter.docx"
    assert len(documents(shelf, user)) == 6


def test_without_waiting_the_answer_is_202_and_progress_is_shown(shelf: Service, user: str) -> None:
    body = form("\n\n".join(paragraphs(7, 30_000)).encode(), "long.txt")
    status, said = call(shelf, "POST", "/memory/v1/documents", user, body)
    assert status == 202 and said["upload"]["status"] in ("waiting", "working")
    seen = set()
    until = time.monotonic() + 60
    while time.monotonic() < until:
        _, now = call(shelf, "GET", f"/memory/v1/documents/{said['id']}", user)
        seen.add((now["upload"]["status"], now["upload"]["chunks"]))
        if now["upload"]["status"] == "done":
            break
        assert now["data"] == [], "nothing of it is there before all of it is"
        time.sleep(0.02)
    assert now["upload"]["embedded"] == now["upload"]["chunks"] == now["chunks"] > 40
    assert len(seen) >= 2
    first = now["data"][0]
    assert first["ordinal"] == 0 and first["start"] == 0 and first["content"]
    _, page = call(shelf, "GET", f"/memory/v1/documents/{said['id']}?limit=2", user)
    _, after = call(shelf, "GET", f"/memory/v1/documents/{said['id']}?limit=2&cursor={page['next_cursor']}", user)
    assert [one["ordinal"] for one in (*page["data"], *after["data"])] == [0, 1, 2, 3]


def test_a_second_upload_of_a_name_is_the_next_version(shelf: Service, user: str) -> None:
    first = upload(shelf, user, GUIDE)
    second = upload(shelf, user, GUIDE.replace("wooden boats", "iron ships"))
    assert second["id"] == first["id"] and second["version"] == 2
    contents = [one["content"] for one in search(shelf, user, "What does the harbour master keep?")]
    assert any("iron ships" in one for one in contents) and not any("wooden boats" in one for one in contents)
    assert len(documents(shelf, user)) == 1


def test_a_deleted_document_is_gone_and_comes_back(shelf: Service, user: str) -> None:
    said = upload(shelf, user, GUIDE)
    path = f"/memory/v1/documents/{said['id']}"
    assert call(shelf, "DELETE", path, user, If_Match='"7"')[1]["error"]["code"] == "conflict"
    status, gone = call(shelf, "DELETE", path, user, If_Match=f'"{said["version"]}"')
    assert status == 200 and gone["chunks"] == said["chunks"]
    assert search(shelf, user, "harbour master of Piran") == [] and documents(shelf, user) == []
    assert call(shelf, "GET", path, user)[0] == 404 and call(shelf, "DELETE", path, user)[0] == 404
    assert call(shelf, "POST", f"{path}/undelete", user)[0] == 200
    assert search(shelf, user, "harbour master of Piran")[0]["document"]["id"] == said["id"]
    assert call(shelf, "POST", f"{path}/undelete", user)[0] == 404


def test_a_document_of_one_conversation_is_given_to_that_one_alone(shelf: Service, user: str) -> None:
    said = upload(shelf, user, GUIDE, save="session", session="harbour")
    assert said["save"] == "session" and said["session"] == "harbour"
    question = "Who is the harbour master of Piran?"
    assert search(shelf, user, question) == []
    assert search(shelf, user, question, session="elsewhere") == []
    assert search(shelf, user, question, session="harbour")[0]["document"]["id"] == said["id"]
    assert ask(shelf, question, user, session="elsewhere").verdict == "empty"
    _, listed = call(shelf, "GET", "/memory/v1/documents?session=harbour", user)
    assert [one["id"] for one in listed["data"]] == [said["id"]]


def test_another_user_or_project_has_nothing_of_it(shelf: Service, user: str) -> None:
    said = upload(shelf, user, GUIDE)
    path = f"/memory/v1/documents/{said['id']}"
    for other, headers in ((f"{user}-other", {}), (user, {"X_Memory_Project": "q"})):
        assert call(shelf, "GET", path, other, **headers)[0] == 404
        assert call(shelf, "DELETE", path, other, **headers)[0] == 404
        assert call(shelf, "GET", "/memory/v1/documents", other, **headers)[1]["data"] == []
    assert search(shelf, f"{user}-other", "harbour master of Piran") == []


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("content", "filename", "fields", "status", "words"),
    [
        (b"", "a.txt", {}, 422, "empty"),
        (b"x" * (BYTES_MAX + 1), "a.txt", {}, 413, "documents.bytes_max"),
        (b"x" * (BYTES_MAX + 100_000), "a.txt", {}, 413, "documents.bytes_max"),
        (b"PK\x03\x04 a zip", "a.pdf", {}, 422, "ZIP archive"),
        (pdf_bomb(), "a.pdf", {}, 413, "page 1 of the PDF unpacks to more than a page may"),
        (b"n\n" + b"1\n" * 150_000, "a.csv", {}, 413, "more than 100000 rows"),
        (b"caf\xe9", "a.txt", {}, 422, "not UTF-8"),
        (b"words", "a.txt", {"colour": "red"}, 422, "colour is not a part of this form"),
        (b"words", "a.txt", {"save": "later"}, 422, "save"),
        (b"words", "a.txt", {"save": "session"}, 422, "name the session"),
        (b"words", "a.txt", {"inline": "perhaps"}, 422, "inline"),
        (b"words", "a.txt", {"sensitivity": "grave"}, 422, "sensitivity"),
        (b"words", "a.txt", {"name": "x" * 300}, 422, "name"),
        (b"words", "a.txt", {"name": "x\x07y"}, 422, "printable"),
        (b"words", "", {}, 422, "name the document"),
        (b"words", "a.txt", {"session": "s" * 3_000}, 422, "session"),
    ],
    ids=lambda value: None if isinstance(value, bytes | dict) else str(value),
)
def test_an_upload_that_cannot_be_taken_is_refused_with_what_is_wrong(
    shelf: Service, user: str, content: bytes, filename: str, fields: dict[str, str], status: int, words: str
) -> None:
    got, said = call(shelf, "POST", "/memory/v1/documents?wait=true", user, form(content, filename, **fields))
    assert got == status, said
    assert words in said["error"]["message"]
    assert said["error"]["code"] == ("too_large" if status == 413 else "unprocessable")
    assert documents(shelf, user) == [] and search(shelf, user, "words of the file") == [], "nothing half stored"


def test_a_body_that_is_no_form_or_no_whole_one_is_refused(shelf: Service, user: str) -> None:
    path, whole = "/memory/v1/documents", form(GUIDE.encode())
    cases: list[tuple[bytes, dict[str, str], str]] = [
        (b"{}", {"Content_Type": "application/json"}, "multipart/form-data"),
        (whole, {"Content_Type": "multipart/form-data"}, "broken"),
        (whole, {"Content_Encoding": "gzip"}, "uncompressed"),
        (whole[: len(whole) // 2], {}, "ends in the middle"),
        (whole[:-6], {}, "ends in the middle"),
        (whole.replace(b'name="file"', b'name="other"'), {}, "other is not a part"),
        (whole.replace(b'name="file"', b'nome="file"'), {}, "no name"),
        (b"--edge--\r\n", {}, 'no part "file"'),
        (b"", {}, "broken"),
        (form(b"a", "a.txt")[:-10] + form(b"b", "b.txt"), {}, "one file"),
    ]
    for body, headers, words in cases:
        status, said = call(shelf, "POST", path, user, body, **headers)
        assert status == 422 and words in said["error"]["message"], (words, said)
    assert call(shelf, "POST", f"{path}?wait=perhaps", user, whole)[0] == 400
    assert documents(shelf, user) == []


def test_a_client_that_stops_or_leaves_in_the_middle_leaves_nothing(shelf: Service, user: str) -> None:
    parts = urlsplit(shelf.url)
    whole = form(GUIDE.encode() * 50)
    head = (
        f"POST /memory/v1/documents HTTP/1.1\r\nHost: x\r\nX-Memory-User: {user}\r\nContent-Length: {len(whole)}\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n"
    ).encode()
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as gone:
        gone.sendall(head + whole[: len(whole) // 2])
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as stops:
        stops.sendall(head + whole[: len(whole) // 2])
        answer = stops.recv(65_536).decode()
    assert answer.startswith("HTTP/1.1 408"), answer
    assert documents(shelf, user) == []


def test_bad_ids_cursors_and_parameters_are_refused(shelf: Service, user: str) -> None:
    said = upload(shelf, user, GUIDE)
    assert call(shelf, "GET", "/memory/v1/documents/none", user)[0] == 404
    for query in ("limit=0", "cursor=x", "order=up", "colour=red"):
        assert call(shelf, "GET", f"/memory/v1/documents?{query}", user)[0] == 400, query
        if "order" not in query:
            assert call(shelf, "GET", f"/memory/v1/documents/{said['id']}?{query}", user)[0] == 400, query
    status, refused = call(shelf, "PUT", f"/memory/v1/documents/{said['id']}", user)
    assert status == 405 and refused["error"]["code"] == "method_not_allowed"


# ---------------------------------------------------------------- the law


def forget(service: Service, caller: str, /, **body: Any) -> Any:
    return service.forget(body, X_Memory_User=caller)


@pytest.mark.timeout(180)
def test_what_is_forgotten_takes_its_documents_along_and_leaves_no_trace(shelf: Service, user: str) -> None:
    texts = "\n\n".join(paragraphs(11, 4_000))
    of_session = upload(shelf, user, texts, "talk.txt", save="session", session="talk")
    whole = upload(shelf, user, GUIDE)
    kept = upload(shelf, user, "The lighthouse keeper of Savudrija counts the ships that pass at night.", "kept.txt")
    receipt = forget(shelf, user, session="talk")
    assert receipt["complete"] is True, receipt
    assert receipt["counts"]["documents"] == 1
    assert {one["id"] for one in documents(shelf, user)} == {whole["id"], kept["id"]}
    assert call(shelf, "GET", f"/memory/v1/documents/{of_session['id']}", user)[0] == 404
    _, shown = call(shelf, "GET", f"/memory/v1/documents/{whole['id']}", user)
    for chunk in shown["data"]:
        receipt = forget(shelf, user, memory=chunk["memory_id"])
        assert receipt["complete"] is True, receipt
    assert [one["id"] for one in documents(shelf, user)] == [kept["id"]], "a document without a chunk is gone"
    again = upload(shelf, user, GUIDE)
    assert search(shelf, user, "harbour master of Piran") != [] and again["id"] != whole["id"]
    receipt = forget(shelf, user, user=user)
    assert receipt["complete"] is True, receipt
    assert documents(shelf, user) == []
    assert upload(shelf, user, GUIDE)["version"] == 1, "a forgotten user may come back"


def test_an_export_names_documents_and_an_import_says_that_it_cannot_take_them(shelf: Service, user: str) -> None:
    said = upload(shelf, user, GUIDE)
    connection = http.client.HTTPConnection(urlsplit(shelf.url).netloc, timeout=60)
    connection.request("GET", "/memory/v1/export", headers={"X-Memory-User": user})
    lines = [json.loads(line) for line in connection.getresponse().read().splitlines()]
    connection.close()
    (named,) = [line for line in lines if line["type"] == "document"]
    assert (named["id"], named["name"], named["sha256"]) == (said["id"], "guide.md", said["sha256"])
    assert any(line["type"] == "memory" and PIRAN in line["content"] for line in lines)
    connection = http.client.HTTPConnection(urlsplit(shelf.url).netloc, timeout=60)
    connection.request("POST", "/memory/v1/import", json.dumps(named).encode(), {"X-Memory-User": f"{user}-2"})
    told = [json.loads(line) for line in connection.getresponse().read().splitlines()]
    connection.close()
    assert "upload it again" in told[0]["error"] and told[-1]["failed"] == 1


# ---------------------------------------------------------------- killed


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_worker_killed_in_the_middle_loses_nothing_and_half_stores_nothing(
    own_service: Callable[..., AbstractContextManager[Service]], user: str
) -> None:
    with own_service() as service:
        body = form("\n\n".join(paragraphs(5, 150_000)).encode(), "long.txt")
        status, said = call(service, "POST", "/memory/v1/documents", user, body)
        assert status == 202
        path = f"/memory/v1/documents/{said['id']}"
        kills = 0
        until = time.monotonic() + 240
        while time.monotonic() < until:
            _, now = call(service, "GET", path, user)
            if now["upload"]["status"] == "done":
                break
            assert now["data"] == [] and now["version"] == 0
            if kills < 2 and now["upload"]["embedded"] > 20 * (kills + 1):
                for pid in service.children("memory worker"):
                    os.kill(pid, signal.SIGKILL)
                kills += 1
            time.sleep(0.05)
        assert kills >= 1, "it was killed in the middle"
        assert now["upload"]["status"] == "done", now["upload"]
        assert now["upload"]["new"] == now["upload"]["chunks"] == now["chunks"]
        _, listed = call(service, "GET", "/memory/v1/memories?kind=document&limit=1000", user)
        assert len(listed["data"]) == now["chunks"], "each once"


# ---------------------------------------------------------------- the command


def cli(service: Service, user: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "python"), "-m", "proxy", "documents", *words]
    command += ["--url", service.url, "--user", user]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_the_command_adds_lists_shows_and_deletes(shelf: Service, user: str, tmp_path: Path) -> None:
    guide, broken = tmp_path / "guide.md", tmp_path / "broken.pdf"
    guide.write_text(GUIDE)
    broken.write_bytes(b"%PDF-1.7\nnothing")
    added = cli(shelf, user, "add", str(guide))
    assert added.returncode == 0, added.stderr
    assert "guide.md  stored, 1 chunks (1 new, 0 as before, 0 gone)" in added.stdout
    refused = cli(shelf, user, "add", str(broken), str(tmp_path / "absent.txt"), str(guide))
    assert refused.returncode == 1
    assert "broken or cut off" in refused.stderr and "absent.txt" in refused.stderr
    assert "1 as before" in refused.stdout, "those behind one that is refused are sent all the same"
    listed = cli(shelf, user, "list")
    assert "guide.md" in listed.stdout and "text/markdown" in listed.stdout
    given = tmp_path / "given.md"
    given.write_text("# Tide table\n\nHigh water at Halcyon bay is at noon.\n")
    of = ("add", str(given), "--session", "s1", "--save", "memory", "--inline", "never")
    assert cli(shelf, user, *of).returncode == 0
    kept = json.loads(cli(shelf, user, "show", "given.md", "--json").stdout)
    assert (kept["save"], kept["given"]) == ("memory", "retrieved")
    nowhere = cli(shelf, user, "add", str(given), "--save", "session")
    assert nowhere.returncode == 1 and "--session" in nowhere.stderr
    shown = cli(shelf, user, "show", "guide.md")
    assert shown.returncode == 0 and "Halcyon Vidmar" in shown.stdout
    assert json.loads(cli(shelf, user, "show", "guide.md", "--json").stdout)["chunks"] == 1
    gone = cli(shelf, user, "delete", "guide.md")
    assert gone.returncode == 0 and "hidden: guide.md" in gone.stdout
    assert cli(shelf, user, "show", "guide.md").returncode == 1
    document_id = gone.stdout.split("(")[1].split(")")[0]
    assert "shown again" in cli(shelf, user, "undelete", document_id).stdout
