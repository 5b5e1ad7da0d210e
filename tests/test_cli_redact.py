"""`memory-proxy redact` beside a running service, and what recall does with text that other rules have let through.

All secrets are made up at run time.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from bench.secret_hunt import hunt, made_up
from tests.e2e.upstreams import last
from tests.service_fixture import Service, owner, serving

pytestmark = pytest.mark.long  # a service of its own

CLI = str(Path(sys.executable).parent / "memory-proxy")
SECRET = made_up("github", 4)
MASTER = base64.b64encode(os.urandom(32)).decode()


@pytest.fixture(scope="module")
def kept(upstream: str) -> Iterator[Service]:
    """A service that puts e-mail addresses behind tokens and masks telephone numbers, under a master key of its own."""
    env = {
        "MEMORY_PROXY_PERSONAL__EMAIL": "tokenise",
        "MEMORY_PROXY_PERSONAL__PHONE": "mask",
        "MEMORY_PROXY_MASTER_KEY": MASTER,
    }
    with serving(upstream, env=env) as running:
        yield running


def run(service: Service, *words: str) -> subprocess.CompletedProcess[str]:
    command = [CLI, "redact", *words, "--data-dir", str(service.data)]
    env = {**os.environ, "MEMORY_PROXY_MASTER_KEY": MASTER}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)


def told(service: Service, user: str, *said: str) -> None:
    lines = "".join(json.dumps({"role": "user", "content": text}) + "\n" for text in said)
    request = Request(f"{service.url}/memory/v1/import", lines.encode(), headers={"X-Memory-User": user})
    with urlopen(request, timeout=60) as answer:
        assert b'"failed":0' in answer.read().replace(b" ", b"")


def asked(service: Service, user: str, question: str) -> bytes:
    """What the upstream is sent."""
    body = {"model": "fake-model", "messages": [{"role": "user", "content": question}]}
    service.call("POST", "/v1/chat/completions", body, X_Memory_User=user, Content_Type="application/json")
    return last(service.upstream)[0].body


def let_through(service: Service, word: str) -> None:
    """As if rules of before had not known the secret: it stands where `word` stood."""
    owner(
        service,
        f"UPDATE turns SET content = replace(content, '{word}', '{SECRET}'), cleaned_by = '1.keep'"
        f" WHERE content LIKE '%{word}%'",
        "WITH v AS (UPDATE scope_versions SET version = version + 1 RETURNING *) UPDATE memories m"
        " SET changed_version = v.version FROM v WHERE m.scope_id = v.scope_id",
        f"UPDATE memory_versions SET content = replace(content, '{word}', '{SECRET}'), cleaned_by = '1.keep'"
        f" WHERE content LIKE '%{word}%' RETURNING 1",
    )


@pytest.mark.long
def test_personal_data_is_behind_tokens_and_turned_back_by_the_command(kept: Service, user: str) -> None:
    told(kept, user, "Mail the invoice to Bob.Smith@example.com or call +44 20 7946 0958.")
    found = kept.call("GET", "/memory/v1/memories", X_Memory_User=user)["data"]
    content = next(one["content"] for one in found if "invoice" in one["content"])
    assert "[redacted:phone]" in content
    token = content[content.index("[kept:") : content.index("]") + 1]
    assert (shown := run(kept, "--reveal", token)).returncode == 0, shown.stderr
    assert shown.stdout == "Bob.Smith@example.com\n"
    assert not (kept.data / "master.key").exists()
    rows = owner(kept, "SELECT actor, ids, detail FROM audit_log WHERE action = 'personal.reveal'")
    assert [row["actor"] for row in rows] == ["operator"]
    assert "Bob" not in str(rows)
    other = token[:-2] + ("e]" if token[-2] == "a" else "a]")
    assert run(kept, "--reveal", other).returncode == 2
    assert b"Smith@example" not in asked(kept, user, "Where do I mail the invoice to?")
    left = asyncio.run(hunt(kept.data, kept.log, {"mail": "Bob.Smith@example.com"}))
    assert left == []


@pytest.mark.long
def test_what_older_rules_let_through_reaches_no_prompt_and_a_sweep_cuts_it(kept: Service, user: str) -> None:
    told(kept, user, "The deployment of the observatory uses albatross as its key.", "The observatory opens at nine.")
    let_through(kept, "albatross")
    prompt = asked(kept, user, "Which key does the deployment of the observatory use?")
    assert b"observatory" in prompt.replace(b"Which key does the deployment of the observatory use?", b"")
    assert SECRET.encode() not in prompt

    rehearsed = run(kept, "--scan")
    assert rehearsed.returncode == 0, rehearsed.stderr
    assert "github/" in rehearsed.stdout
    assert "nothing was changed" in rehearsed.stdout
    assert SECRET not in rehearsed.stdout + rehearsed.stderr
    assert owner(kept, f"SELECT 1 FROM turns WHERE content LIKE '%{SECRET}%'")

    applied = run(kept, "--scan", "--apply", "--json")
    assert applied.returncode == 0, applied.stderr
    report = json.loads(applied.stdout)
    assert report["applied"]
    assert report["changed"]["turns"] == 1
    assert report["changed"]["versions"] >= 1
    for table in ("turns", "memory_versions", "facts", "sessions"):
        assert not owner(kept, f"SELECT 1 FROM {table} t WHERE t::text LIKE '%{SECRET}%'")
    again = json.loads(run(kept, "--scan", "--json").stdout)
    assert sum(again["changed"].values()) == 0
    assert again["looked_at"]["turns"] == 0
    prompt = asked(kept, user, "Which key does the deployment of the observatory use?")
    assert b"[redacted:" in prompt
    assert SECRET.encode() not in prompt


def test_a_session_named_after_a_key_is_found_again_and_nobody_reads_the_key(kept: Service, user: str) -> None:
    key = made_up("openai", 9)
    body = {"model": "fake-model", "messages": [{"role": "user", "content": "hello from the lighthouse"}]}
    for _ in range(2):
        named = {"X_Memory_User": user, "X_Memory_Session": key, "Content_Type": "application/json"}
        assert "error" not in kept.call("POST", "/v1/chat/completions", body, **named)
    kept.settle()
    sessions = kept.call("GET", "/memory/v1/sessions", X_Memory_User=user)["data"]
    assert len(sessions) == 1
    assert asyncio.run(hunt(kept.data, kept.log, {"key": key}, {"sessions": json.dumps(sessions).encode()})) == []


@pytest.mark.long
def test_the_command_says_what_it_lacks(kept: Service) -> None:
    assert run(kept).returncode == 1
    assert run(kept, "--reveal", "bob@example.com").returncode == 2
