"""The doctor asks every other service that a configuration names, and says of each what is wrong with it."""

from __future__ import annotations

import os
import socket
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.config import Settings
from proxy.cli import check_others, check_stores
from proxy.cli.checks import Findings, as_json
from proxy.cli.examination import checks_of
from tests.test_cli_client import answering, whole

GAUGE = b"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 0.0\n"
NOTHING_THERE = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def settings_with(**sections: object) -> Settings:
    return Settings.model_validate(sections)


def told(findings: Findings) -> tuple[str, str]:
    (finding,) = findings
    return finding.level, f"{finding.found} {finding.mend}"


@pytest.fixture
def nobody() -> Iterator[str]:
    """The address of a port that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


async def test_what_is_not_configured_has_no_line() -> None:
    settings = Settings()
    assert [] == await check_others.watched(settings) == await check_others.chat_model(settings)
    assert [] == await check_others.search(settings) == await check_others.collector(settings, {})


async def test_an_address_that_does_not_tell_the_load_is_named_since_it_holds_up_extraction(nobody: str) -> None:
    plain = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(GAUGE), GAUGE)
    with answering(plain) as good, answering(NOTHING_THERE) as wrong:
        urls = [f"{good}/metrics", f"{wrong}/metrics", f"{nobody}/metrics"]
        found = await check_others.watched(settings_with(upstream={"metrics_urls": urls}, extract={"by": "vllm"}))
        assert await check_others.watched(settings_with(upstream={"metrics_urls": urls})) == [], "nobody asks them"
    assert [one.level for one in found] == ["ok", "FAIL", "FAIL"]
    assert all(url in one.found for url, one in zip(urls, found, strict=True))
    assert "404" in found[1].found


@pytest.mark.parametrize(
    ("answer", "model", "level", "says"),
    [
        (whole({"data": [{"id": "x"}]}), "openai/x", "ok", "serves x"),
        (whole({"data": [{"id": "y"}]}), "openai/x", "warn", "openai/y"),
        (whole({"data": [{"id": "y"}]}), "anthropic/x", "ok", "shows in a call only"),
        (NOTHING_THERE, "openai/x", "FAIL", "ends in /v1"),
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "openai/x", "FAIL", "CHAT_MODEL__API_KEY"),
        (b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", "anthropic/x", "FAIL", "503"),
    ],
)
async def test_the_model_of_background_work_is_asked_for(answer: bytes, model: str, level: str, says: str) -> None:
    asked: list[bytes] = []
    with answering(answer, asked) as url:
        chat = {"model": model, "api_base": f"{url}/v1", "api_key": "hush"}
        found = await check_others.chat_model(settings_with(chat_model=chat, upstream={"api_key": "other"}))
    assert told(found)[0] == level and says in told(found)[1], found
    assert b"Bearer hush" in asked[0] and b"other" not in asked[0] and "hush" not in as_json(found)


async def test_a_model_without_an_address_is_looked_for_where_it_is_asked(nobody: str) -> None:
    """LiteLLM is given the serving vLLM's."""
    found = await check_others.chat_model(settings_with(chat_model={"model": "openai/x"}, upstream={"url": nobody}))
    assert told(found)[0] == "FAIL" and f"{nobody}/v1 does not answer" in told(found)[1]


async def test_the_search_of_the_web_is_tried(nobody: str) -> None:
    refused = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
    one = {"results": [{"url": "http://example.org/", "title": "t", "content": "c"}]}
    with answering(whole(one)) as good, answering(refused) as closed, answering(whole({"results": []})) as empty:
        levels = []
        for url in (good, closed, empty, nobody):
            found = await check_others.search(settings_with(outside={"enabled": True, "search_url": url}))
            levels.append(told(found)[0])
            assert url in told(found)[1]
            assert ("search.formats" in told(found)[1]) == (url == closed)
    assert levels == ["ok", "FAIL", "warn", "FAIL"]


async def test_the_collector_of_traces_is_sent_an_export_without_a_span(nobody: str) -> None:
    asked: list[bytes] = []
    environ = {"OTEL_EXPORTER_OTLP_HEADERS": "x-key=hush%20hush"}
    with answering(whole({}), asked) as good, answering(NOTHING_THERE) as wrong:
        levels = []
        for url in (good, wrong, nobody):
            found = await check_others.collector(settings_with(telemetry={"otlp_endpoint": url}), environ)
            levels.append(told(found)[0])
            assert url in told(found)[1] and "hush" not in as_json(found)
    assert levels == ["ok", "FAIL", "FAIL"]
    assert asked[0].startswith(b"POST /v1/traces ") and b"x-key: hush hush" in asked[0]
    off = settings_with(telemetry={"otlp_endpoint": nobody})
    assert await check_others.collector(off, {"OTEL_SDK_DISABLED": "true"}) == []


def test_files_that_cannot_be_kept_are_told(tmp_path: Path) -> None:
    assert told(check_others.files(tmp_path, Settings()))[0] == "ok"
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        found = check_others.files(tmp_path, settings_with(artifacts={"dir": str(place)}))
        assert told(found)[0] == "FAIL" and f"{tmp_path / 'file'} is no directory" in told(found)[1]
    assert os.listdir(tmp_path) == ["file"], "the doctor makes nothing"


def test_a_bucket_that_cannot_be_used_is_told(tmp_path: Path, nobody: str) -> None:
    no_bucket = b"<?xml version='1.0'?><Error><Code>NoSuchBucket</Code><Message>m</Message></Error>"
    empty = b"<?xml version='1.0'?><ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>"
    form = b"HTTP/1.1 %s\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n%s"
    asked: list[bytes] = []
    with (
        answering(form % (b"200 OK", len(empty), empty), asked) as good,
        answering(form % (b"404 Not Found", len(no_bucket), no_bucket)) as wrong,
        answering(NOTHING_THERE) as other,
    ):
        said = {}
        for url in (good, wrong, other, nobody):
            bucket = {"s3_bucket": "b", "s3_url": url, "s3_access_key": "a", "s3_secret_key": "hush"}
            found = check_others.files(tmp_path, settings_with(artifacts=bucket))
            said[url] = told(found)
            assert "hush" not in as_json(found)
    assert said[good][0] == "ok", said
    assert said[wrong][0] == "FAIL" and "NoSuchBucket" in said[wrong][1]
    assert said[other][0] == "FAIL" and "no S3-compatible service" in said[other][1]
    assert said[nobody][0] == "FAIL" and "does not answer" in said[nobody][1]
    assert len(asked) == 1 and b"max-keys=1" in asked[0]


def test_beside_a_service_its_own_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand in a file that the doctor was not given, as `--config` of the service's own command line."""
    (tmp_path / "run").mkdir()
    its = settings_with(telemetry={"otlp_endpoint": "http://its:4318"}, chat_model={"model": "openai/its"})
    (tmp_path / "run" / "settings.json").write_text(its.model_dump_json())
    monkeypatch.setattr(check_stores, "lock_holder", lambda _: "1")
    ours = settings_with(chat_model={"model": "openai/ours"})
    beside = check_stores.running_settings(ours, tmp_path)
    assert (beside.telemetry, beside.chat_model) == (its.telemetry, ours.chat_model)


def test_they_are_among_the_checks(tmp_path: Path) -> None:
    options = Namespace(config=None, upstream=None, host=None, port=None, data_dir=str(tmp_path / "d"), workers=None)
    whats = {check.what for check in checks_of(options, {})}
    assert {"files", "upstream.metrics_urls", "chat model", "web search", "trace collector"} <= whats
