"""The MCP server as agents meet it: the SDK's own client over stdio and over HTTP, before a running service."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from proxy.__main__ import main
from proxy.cli.mcp import OptionRefused, key_of
from proxy.mcp_server.api_calls import Identity
from tests.e2e.keyed import Keyed
from tests.e2e.talk import tell
from tests.service_fixture import Service
from tests.test_cli_client import answering

FACT = "The windmill of Harlinghausen grinds only on Thursdays after the second bell."
QUESTION = "When does the windmill of Harlinghausen grind?"
TASKS = ["task_add", "task_update", "task_list", "task_order", "task_history", "task_delete"]
CHECKPOINTS = [f"checkpoint_{what}" for what in ("save", "load", "list", "diff", "branch", "delete")]
RECORDS = [*TASKS, *CHECKPOINTS]
NAMES = ["memory_search", "memory_remember", "memory_correct", "memory_forget", "memory_why", *RECORDS]


def over_stdio(*options: str, mode: str = "auto", **env: str) -> AbstractAsyncContextManager[Client]:
    argv = ["-m", "proxy", "mcp", *options]
    return Client(
        stdio_client(StdioServerParameters(command=sys.executable, args=argv, env={**os.environ, **env})), mode=mode
    )


@contextlib.contextmanager
def http_server(*options: str) -> Iterator[str]:
    """A server on a free port; its address."""
    argv = [sys.executable, "-m", "proxy", "mcp", "--http", "127.0.0.1:0", *options]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("ready on "), line
        yield line.split()[-1]
    finally:
        process.terminate()
        assert process.wait(20) == 0
        process.stdout.close()


@asynccontextmanager
async def over_http(url: str, mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        httpx2.AsyncClient(headers=named, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


def said(answer: CallToolResult) -> str:
    (content,) = answer.content
    assert isinstance(content, TextContent)
    return content.text


async def values(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, said(answer)
    found: dict[str, Any] = answer.structured_content
    return found


async def words(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, said(answer)
    return said(answer)


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error and answer.structured_content is None
    return said(answer)


async def goes_through_its_day(client: Client, service: Service, user: str) -> None:
    """Remember, find, correct, find, be told why, forget."""
    listed = (await client.list_tools()).tools
    assert [one.name for one in listed] == NAMES
    assert [one.name for one in listed if one.annotations and one.annotations.read_only_hint] == [
        "memory_search",
        "memory_why",
        "task_list",
        "task_order",
        "task_history",
        "checkpoint_load",
        "checkpoint_list",
        "checkpoint_diff",
    ]
    made = await values(client, "memory_remember", content=FACT)
    assert (made["stored"], made["integrity"]) == (True, "assistant")
    answer = await client.call_tool("memory_search", {"query": QUESTION})
    assert f" assistant, id {made['id']}, version 1] {FACT}" in said(answer)
    new = "The windmill of Harlinghausen grinds every day at noon."
    corrected = await values(client, "memory_correct", memory=made["id"], version=1, content=new)
    assert corrected["replaced"] == made["id"]
    found = await values(client, "memory_search", query=QUESTION)
    assert [one["content"] for one in found["memories"]] == [new]
    why = await values(client, "memory_why", retrieval=found["retrieval"])
    assert [one["id"] for one in why["memories"]] == [corrected["id"]]
    planned = await values(client, "memory_forget", memory=corrected["id"])
    assert planned["counts"]["memories"] == 1 and planned["receipt"] is None
    gone = await values(client, "memory_forget", memory=corrected["id"], confirm=planned["confirm"])
    receipt = gone["receipt"] or await asyncio.to_thread(service.receipt, gone["erasure"], X_Memory_User=user)
    assert receipt["complete"] is True, receipt["probe"]
    assert (await values(client, "memory_search", query=QUESTION))["memories"] == []


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_over_stdio_goes_through_its_day(service: Service, user: str, mode: str) -> None:
    async with over_stdio("--url", service.url, "--user", user, mode=mode) as client:
        await goes_through_its_day(client, service, user)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_agent_over_http_goes_through_its_day(service: Service, user: str, mode: str) -> None:
    with http_server("--url", service.url) as url:
        async with over_http(url, mode, X_Memory_User=user) as client:
            await goes_through_its_day(client, service, user)


@pytest.mark.long
async def test_a_search_finds_what_a_chat_stored_and_stays_in_its_scope(service: Service, user: str) -> None:
    tell(service, FACT, user, project="mills")
    async with over_stdio("--url", service.url, "--user", user, "--project", "mills") as client:
        found = await values(client, "memory_search", query=QUESTION)
        assert FACT in found["memories"][0]["content"]
    async with over_stdio("--url", service.url, "--user", user) as client:
        assert (await values(client, "memory_search", query=QUESTION))["memories"] == []


@pytest.mark.long
async def test_what_cannot_be_is_said_in_the_apis_own_words(service: Service, user: str) -> None:
    async with over_stdio("--url", service.url, "--user", user) as client:
        assert "422 unprocessable: query" in await refused(client, "memory_search", k=3)
        assert "limit is not a member of this call" in await refused(client, "memory_search", query="x", limit=3)
        assert "422 unprocessable: version" in await refused(
            client, "memory_correct", memory="x", version="1", content="y"
        )
        assert "404 not_found" in await refused(client, "memory_why", retrieval="nothing")
        assert "there is no tool 'memory_erase_all'; there are memory_search" in await refused(
            client, "memory_erase_all"
        )


@pytest.mark.long
async def test_a_caller_who_names_two_users_over_http_is_nobody(service: Service, user: str) -> None:
    tell(service, FACT, user)
    both = [("X-Memory-User", user), ("X-Memory-User", "somebody-else")]
    with http_server("--url", service.url) as url:
        async with (
            httpx2.AsyncClient(headers=both, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            assert "X-Memory-User was sent twice" in await refused(client, "memory_search", query=QUESTION)


@pytest.mark.long
@pytest.mark.parametrize(("name", "sent"), [("", ""), ("\udcff", "%FF")])
def test_a_name_that_can_be_none_is_the_services_to_refuse(name: str, sent: str) -> None:
    """As a variable that is not set leaves it: no caller may say who instead, nor is it `default`."""
    assert Identity.of(None, {"user": name}).with_caller([("x-memory-user", "ada")]) == {"X-Memory-User": sent}


@pytest.mark.long
async def test_an_agent_plans_goes_back_and_clears_up(service: Service, user: str) -> None:
    async with over_stdio("--url", service.url, "--user", user, "--project", "land") as client:
        await values(client, "checkpoint_save", name="camp", notes="The timber is ordered.")
        wood = (await values(client, "task_add", title="Order the oak timber"))["task"]
        jetty = await values(client, "task_add", title="Build the jetty", needs=[wood["id"]], checkpoint="camp")
        jetty = jetty["task"]
        order = await values(client, "task_order")
        assert ([one["id"] for one in order["tasks"]], order["ready"]) == ([wood["id"], jetty["id"]], [wood["id"]])
        assert (await words(client, "task_order")).splitlines() == [
            f"- ready (id {wood['id']}, version 1): Order the oak timber",
            f"- queued (id {jetty['id']}, version 1, waits for {wood['id']}, checkpoint camp): Build the jetty",
        ]
        short = await values(client, "task_order", k=1)
        assert (len(short["tasks"]), short["more"]) == (1, 1)
        assert (await words(client, "task_order", k=1)).endswith("\n1 more come after these.")
        await values(client, "task_update", task=wood["id"], version=1, status="done")
        history = await values(client, "task_history", task=wood["id"])
        assert [(one["was"], one["status"]) for one in history["steps"]] == [(None, "queued"), ("queued", "done")]
        told = await words(client, "task_history", task=wood["id"])
        assert "(version 1): kept as queued" in told and told.endswith("(version 2): queued -> done")
        assert f"Task {jetty['id']} is hidden" in await words(client, "task_delete", task=jetty["id"])
        assert await words(client, "task_order") == "There are no such tasks."
        branched = await values(client, "checkpoint_branch", name="camp", new_name="plan B")
        assert branched["checkpoint"]["branched_from"] and branched["checkpoint"]["name"] == "plan B"
        same = await words(client, "checkpoint_diff", name="camp", other="plan B")
        assert same == "They do not differ; 1 parts are the same."
        assert "Checkpoint camp is hidden" in await words(client, "checkpoint_delete", name="camp")
        assert [one["name"] for one in (await values(client, "checkpoint_list"))["checkpoints"]] == ["plan B"]
        for tool, arguments in (
            ("task_delete", {"task": jetty["id"]}),
            ("task_history", {"task": "nothing"}),
            ("checkpoint_delete", {"name": "camp"}),
            ("checkpoint_diff", {"name": "plan B", "other": "camp"}),
            ("checkpoint_branch", {"name": "camp", "new_name": "x"}),
        ):
            assert "404 not_found" in await refused(client, tool, **arguments), tool
        assert "409 conflict" in await refused(client, "checkpoint_branch", name="plan B", new_name="plan B")
        assert "422 unprocessable: k" in await refused(client, "task_order", k=0)
    async with over_stdio("--url", service.url, "--user", f"{user}-not") as client:
        for tool in ("task_history", "task_delete"):
            assert "404 not_found" in await refused(client, tool, task=wood["id"])
    async with over_stdio("--url", service.url, "--user", user, "--project", "sea") as client:
        taken = await values(client, "checkpoint_branch", name="plan B", new_name="ours", from_project="land")
        assert [one["integrity"] for one in taken["checkpoint"]["parts"]] == ["assistant"], "it gains none on the way"


@pytest.mark.long
async def test_a_cookie_that_one_caller_is_given_is_not_sent_for_another() -> None:
    """As a server with a login of its own gives it, that stands before the service."""
    asked: list[bytes] = []
    given = b"HTTP/1.1 200 OK\r\nConnection: close\r\nSet-Cookie: login=ada\r\nContent-Length: 2\r\n\r\n{}"
    with answering(given, asked) as service, http_server("--url", service.replace("127.0.0.1", "localhost")) as url:
        for key in ("mp-ada", "mp-bob"):
            async with over_http(url, Authorization=f"Bearer {key}") as client:
                await refused(client, "memory_search", query="boat")
    assert [b"Bearer mp-ada" in asked[0], b"Bearer mp-bob" in asked[1]] == [True, True]
    assert not any(b"\r\nCookie:" in one for one in asked)


@pytest.mark.long
async def test_a_service_that_is_away_is_said_and_found_again() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    async with over_stdio("--url", url) as client:
        assert [one.name for one in (await client.list_tools()).tools] == NAMES
        words = await refused(client, "memory_search", query="x")
        assert f"{url} does not answer" in words and "memory-proxy serve" in words


@pytest.mark.long
async def test_another_server_is_no_memory_proxy(service: Service) -> None:
    async with over_stdio("--url", service.upstream) as client:
        assert "not as a memory-proxy with tools does" in await refused(client, "memory_search", query="x")


# ---------------------------------------------------------------- keys


async def test_two_keys_of_one_server_see_each_their_own_and_no_key_is_told_what_to_do(keyed: Keyed) -> None:
    ada, bob = (
        keyed.make(name, "--user", name, "--can", "memory:read:own", "--can", "memory:write")["secret"]
        for name in ("mcp-ada", "mcp-bob")
    )
    with http_server("--url", keyed.service.url) as url:
        async with (
            over_http(url, Authorization=f"Bearer {ada}") as hers,
            over_http(url, Authorization=f"Bearer {bob}") as his,
            over_http(url) as nobody,
            over_http(url, Authorization="Bearer mp-0000-wrong") as wrong,
        ):
            made = await values(hers, "memory_remember", content=FACT)
            assert (await values(hers, "memory_search", query=QUESTION))["memories"][0]["id"] == made["id"]
            assert (await values(his, "memory_search", query=QUESTION))["memories"] == []
            words = await refused(his, "memory_correct", memory=made["id"], version=1, content="It grinds at noon.")
            assert "404 not_found" in words
            assert "404" in await refused(his, "memory_why", retrieval=made["retrieval"])
            assert "403 capability_missing" in await refused(hers, "memory_forget", memory=made["id"])
            for client in (nobody, wrong):
                words = await refused(client, "memory_search", query=QUESTION)
                assert "401 invalid_api_key" in words and "send a key as `Authorization: Bearer" in words
        async with over_http(url, Authorization=f"Bearer {ada}", X_Memory_User="mcp-bob") as client:
            assert "403 scope_denied" in await refused(client, "memory_search", query=QUESTION)


@pytest.mark.long
async def test_a_key_comes_from_its_file_or_the_environment(keyed: Keyed, tmp_path: Path) -> None:
    secret = keyed.make("mcp-file", "--user", "mcp-file", "--can", "memory:read:own", "--can", "memory:write")["secret"]
    path = tmp_path / "key"
    path.write_text(secret + "\n")
    async with over_stdio("--url", keyed.service.url, "--key-file", str(path)) as client:
        await values(client, "memory_remember", content=FACT)
    async with over_stdio("--url", keyed.service.url, MEMORY_PROXY_KEY=secret) as client:
        assert (await values(client, "memory_search", query=QUESTION))["memories"]
    async with over_stdio("--url", keyed.service.url) as client:
        words = await refused(client, "memory_search", query=QUESTION)
        assert "401 invalid_api_key" in words and "--key-file FILE or MEMORY_PROXY_KEY" in words


@pytest.mark.long
async def test_a_token_for_one_conversation_remembers_and_finds_in_it_alone(keyed: Keyed) -> None:
    can = ("--can", "memory:read:own", "--can", "memory:write")
    key = keyed.make("mcp-task", "--user", "mcp-task", *can)["secret"]
    token = keyed.own(key, "POST", "/memory/v1/tokens", {"session": "task-1"})["token"]
    with http_server("--url", keyed.service.url) as url:
        async with over_http(url, Authorization=f"Bearer {key}") as whole:
            await values(whole, "memory_remember", content="The bakery of Harlinghausen opens at four.")
            async with over_http(url, Authorization=f"Bearer {token}") as task:
                made = await values(task, "memory_remember", content=FACT)
                assert made["session"] == "task-1"
                found = await values(task, "memory_search", query="Harlinghausen")
                assert [one["id"] for one in found["memories"]] == [made["id"]]
            assert len((await values(whole, "memory_search", query="Harlinghausen"))["memories"]) == 2


# ---------------------------------------------------------------- the door of the server itself


def posted(url: str, **headers: str) -> int:
    """The status of a well-formed first request with these headers."""
    hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
    request = urllib.request.Request(url, data=json.dumps(hello).encode(), headers=sent)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused_:
        with refused_:
            return refused_.code


@pytest.mark.long
def test_a_web_page_reaches_it_by_no_name_of_its_own(service: Service) -> None:
    with http_server("--url", service.url, "--allow-host", "memory.internal") as url:
        port = urlsplit(url).port
        assert posted(url) == 200
        assert posted(url, Host=f"localhost:{port}") == 200
        assert posted(url, Host="memory.internal") == 200
        assert posted(url, Host="rebound.example") == 421
        assert posted(url, Host=f"rebound.example:{port}") == 421
        assert posted(url, Host=f"127.0.0.1.rebound.example:{port}") == 421
        assert posted(url, Origin="https://rebound.example") == 403
        assert posted(url, Origin=f"http://127.0.0.1:{port}") == 200


def started(*options: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "proxy", "mcp", *options]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, env={**os.environ, **env}, input="")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--http", "0.0.0.0:0", "--key-file", "KEY"), "would be lent to whoever reaches 0.0.0.0"),
        (("--http", "0.0.0.0:0"), "asks for no keys (auth.mode open)"),
        (("--http", "0.0.0.0:0", "--url", "http://127.0.0.1:1"), "not known whether it asks for keys"),
        (("--http", "8765"), "say it like 127.0.0.1:8765"),
        (("--key-file", "nowhere"), "cannot read the key in nowhere: No such file"),
        (("--key-file", "EMPTY"), "must hold one key and nothing else"),
        (("--url", "localhost:8080"), "--url must be an http:// or https:// URL"),
    ],
)
def test_what_would_open_a_door_or_cannot_be_is_refused_with_the_remedy(
    service: Service,
    tmp_path: Path,
    options: tuple[str, ...],
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MEMORY_PROXY_KEY", raising=False)
    (tmp_path / "KEY").write_text("mp-1a2b3c4d-secret")
    (tmp_path / "EMPTY").write_text("")
    given = [str(tmp_path / one) if one in ("KEY", "EMPTY") else one for one in options]
    url = () if "--url" in given else ("--url", service.url)
    try:
        code: object = main(["mcp", *given, *url])
    except SystemExit as refused:
        code = refused.code
    told = capsys.readouterr().err
    assert code in (1, 2) and says in told
    assert "mp-1a2b3c4d-secret" not in told


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "key"),
    [
        (None, None),
        ("", None),
        (" \n", None),
        ("mp-1a2b3c4d-secret\n", "mp-1a2b3c4d-secret"),
        ("mp-1a2b c3d4", ""),
        ("mp-ключ", ""),
    ],
)
def test_a_key_in_the_environment_is_read_as_one_in_a_file(given: str | None, key: str | None) -> None:
    """A line break behind it, as `$(cat FILE)` elsewhere cuts it off, made every call a fault of the protocol."""
    if key != "":
        assert key_of(None, given) == key
        return
    with pytest.raises(OptionRefused, match="MEMORY_PROXY_KEY must hold one key and nothing else") as refused_:
        key_of(None, given)
    assert given is not None and given not in str(refused_.value)


@pytest.mark.long
def test_every_address_is_listened_on_only_by_a_name(keyed: Keyed) -> None:
    done = started("--http", "0.0.0.0:0", "--url", keyed.service.url)
    assert done.returncode == 1 and "--allow-host NAME" in done.stderr, done


@pytest.mark.long
def test_without_the_extra_the_command_says_what_to_install() -> None:
    hidden = "import sys; sys.modules['mcp'] = None; from proxy.__main__ import main; sys.exit(main(['mcp']))"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "pip install 'vllm-memory-proxy[mcp]'" in done.stderr, done
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_the_service_never_loads_the_sdk() -> None:
    look = (
        "import sys, proxy.worker, memory.commands, proxy.cli.parser;"
        "sys.exit(bool({'mcp', 'mcp_types', 'starlette', 'uvicorn'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", look], timeout=60).returncode == 0


@pytest.mark.long
def test_a_line_that_is_no_message_is_answered_over_stdio_and_the_next_one_heard() -> None:
    lines = [
        b"{not json",
        b"",
        b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"word": "\\ud83d"}}',
        b'[{"jsonrpc": "2.0", "id": 2, "method": "ping"}]',
        b'{"id": 3, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 4, "method": "ping"}',
    ]
    argv = [sys.executable, "-m", "proxy", "mcp"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"\n".join([*lines, b""]))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(5)]
    assert [(one["id"], one["error"]["code"]) for one in answers[:4]] == [
        (None, -32700),
        (1, -32700),
        (None, -32600),
        (None, -32600),
    ]
    assert answers[4] == {"jsonrpc": "2.0", "id": 4, "result": {}}


@pytest.mark.long
def test_a_signal_ends_a_server_on_stdio_whose_client_stays(service: Service) -> None:
    argv = [sys.executable, "-m", "proxy", "mcp", "--url", service.url]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        process.stdin.write(json.dumps(hello).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == -signal.SIGTERM
