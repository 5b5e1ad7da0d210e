"""`memory-proxy replay`: the bytes on stdout, a what-if as text, and a shadow run whose figures mean what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from proxy.cli.client import CallFailed
from proxy.cli.replay import settings_in
from proxy.cli.shadow import Bare, Block, Ledger, PrefixCache, Series, bare_of
from tests.e2e.talk import ask, tell, turn
from tests.e2e.upstreams import Seen, last
from tests.service_fixture import Service

FACT = "My grandmother's cottage is in Lofthus."
QUESTION = "Where is my grandmother's cottage?"


def command(service: Service, user: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-m", "proxy", "replay", *words, "--url", service.url, "--user", user]
    return subprocess.run(argv, capture_output=True, timeout=120)


def talked(service: Service, upstream: str, user: str) -> tuple[str, Seen]:
    """Two turns of a conversation that were given memory; the second one's retrieval and what went upstream."""
    tell(service, FACT, user)
    tell(service, "My dog Rex is afraid of the sea.", user)
    messages: list[dict[str, Any]] = [turn("user", QUESTION)]
    messages += [turn("assistant", ask(service, messages, user).text), turn("user", "What is my dog Rex afraid of?")]
    answer = ask(service, messages, user)
    (seen,) = last(upstream)
    service.settle()
    return answer.memory("retrieval") or "", seen


def test_the_bytes_that_went_are_on_stdout(service: Service, upstream: str, user: str) -> None:
    retrieval, seen = talked(service, upstream, user)
    done = command(service, user, retrieval)
    assert (done.returncode, done.stdout) == (0, seen.body), done.stderr
    assert seen.sha256 in done.stderr.decode()
    told = json.loads(command(service, user, retrieval, "--json").stdout)
    assert told["identical"] is True
    without = command(service, user, retrieval, "--without", told["placed"][-1]["memory_ids"][0])
    assert without.returncode == 0
    assert without.stdout.decode().startswith("kept") and "would be placed" in without.stdout.decode()


def test_a_shadow_run_compares_what_is_placed_and_what_the_cache_makes_of_it(
    service: Service, upstream: str, user: str
) -> None:
    talked(service, upstream, user)
    nothing = [f"--config-set=recall.{tier}_max=0" for tier in ("episodes", "facts", "procedures")]
    done = command(service, user, "--shadow", "--last", "2", "--json", *nothing)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    series = report["series"]
    assert report["turns"] == 2 and report["left_out"] == {"gone": 0, "failed": 0}
    assert series["then"]["placed"] >= 2 and series["then"]["of_then"] == 1
    assert series["again"]["placed"] >= 2 and series["again"]["of_then"] > 0.5
    assert (series["changed"]["placed"], series["changed"]["tokens"], series["changed"]["of_then"]) == (0, 0, 0)
    assert series["changed"]["cache_ratio"] == series["off"]["cache_ratio"]
    assert "characters" in report["cache_counted_in"]
    table = command(service, user, "--shadow", "--last", "2", *nothing).stdout.decode()
    assert "recall.episodes_max=0" in table and "changed" in table


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ((), "give the id"),
        (("x", "--shadow"), "give the id"),
        (("--shadow",), "--config-set"),
        (("--shadow", "--as-of", "2026-01-01T00:00:00Z", "--config-set", "recall.facts_max=1"), "for one answer"),
        (("x", "--config-set", "recall.facts_max"), "NAME=N"),
        (("x", "--config-set", "recall.facts_max=1"), "404"),
    ],
    ids=["nothing", "both", "no change", "a moment", "no value", "no such answer"],
)
def test_what_cannot_be_done_is_refused_with_how_to_go_on(
    service: Service, user: str, words: tuple[str, ...], remedy: str
) -> None:
    done = command(service, user, *words)
    assert done.returncode == 1
    assert remedy in done.stderr.decode() and "Traceback" not in done.stderr.decode()


def test_settings_are_read_one_by_one() -> None:
    assert settings_in(["recall.facts_max=3", " recall.episodes_max = 0"]) == {
        "recall.facts_max": 3,
        "recall.episodes_max": 0,
    }
    for bad in ("=3", "x", "x=", "x=1.5"):
        with pytest.raises(CallFailed, match="NAME=N"):
            settings_in([bad])


# ---------------------------------------------------------------- the simulation


def request(*messages: dict[str, Any]) -> str:
    return json.dumps({"model": "m", "messages": list(messages)})


def cache() -> PrefixCache:
    return PrefixCache(tuple, 4)


def test_what_its_client_said_is_the_request_less_its_blocks() -> None:
    parts = [{"type": "text", "text": "<m>"}, {"type": "text", "text": "b"}]
    placed = [{"position": 0, "text": "<m>"}, {"position": 1, "text": "<m>"}]
    found = bare_of("s", request(turn("user", "<m>a"), turn("user", parts)), placed)
    assert found == bare_of("s", request(turn("user", "a"), turn("user", parts[1:])), [])
    assert "<m>" not in found.prompt({}) and found.prompt({0: "<m>"}).count("<m>") == 1


def test_a_prompt_seen_before_is_cached_but_for_its_last_part_of_a_block() -> None:
    held = cache()
    held.take("abcdefghij")
    assert held.cached == 0
    held.take("abcdefghij")
    assert (held.cached, held.total) == (8, 20)
    held.take("Xbcdefghij")  # nothing behind a first difference
    assert held.cached == 8


def test_what_was_placed_stays_so_that_the_next_turn_finds_its_prefix() -> None:
    first = Bare("s", "", (turn("user", "one"),))
    second = Bare("s", "", (turn("user", "one"), turn("assistant", "a"), turn("user", "two")))
    ledger, block = Ledger(), Block(0, "<memory>", 2, ("m1",))
    ledger.place(first, block)
    assert ledger.carried(second) == {0: block}
    assert second.prompt({0: "<memory>"}).startswith(first.prompt({0: "<memory>"}))
    assert ledger.carried(Bare("other", "", first.messages)) == {}
    assert ledger.carried(Bare("s", "", (turn("user", "edited"),))) == {}
    instructed = Bare("s", "", (turn("system", "new"), *first.messages))
    assert ledger.carried(instructed) == {1: block}


def test_figures_say_how_many_of_then_and_how_much_in_common() -> None:
    series = Series(cache())
    series.take("x" * 8, [Block(0, "b", 5, ("m1", "m2"))], ["m1", "m3"])
    series.take("x" * 8, [], [])
    figures = series.figures()
    assert figures == {"placed": 2, "tokens": 5, "of_then": 0.5, "jaccard": 0.3333, "cache_ratio": 0.5}
