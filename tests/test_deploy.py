"""Dashboard and alert rules name only what the service shows, and each says what it is for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from memory.catalogue import Stage
from memory.config import Settings
from memory.consolidation import STEPS
from memory.telemetry import Metrics
from memory.write.extraction import Done
from policies.overload import LADDER
from proxy.cli.parser import build_parser

DEPLOY = Path(__file__).parent.parent / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "memory-proxy.json").read_text())
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())
SCRAPE = yaml.safe_load((DEPLOY / "prometheus" / "scrape.yaml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
QUERIES += [(rule["alert"], rule["expr"]) for rule in RULES]

TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<range>\[[^\]]*\])|(?P<number>\d+(?:\.\d+)?(?:[smhdwy])?)"""
    r"""|(?P<name>[a-zA-Z_:][\w:]*)|(?P<op>=~|!~|!=|==|>=|<=|[-+*/%^<>=(){},])"""
)
WORDS = {"sum", "max", "min", "avg", "count", "by", "without", "on", "ignoring", "unless", "and", "or", "offset"}
FUNCTIONS = {"rate", "increase", "avg_over_time", "histogram_quantile", "label_replace", "scalar", "time"}
COUNTED = {"rate", "increase"}  # want a counter, or the parts of a histogram
AVERAGED = {"avg_over_time"}  # wants a gauge
SCRAPED = {"job", "instance"}  # labels that Prometheus adds


def catalogue() -> dict[str, tuple[str, frozenset[str]]]:
    """Each series that can be asked for: its kind and its labels."""
    series: dict[str, tuple[str, frozenset[str]]] = {"up": ("gauge", frozenset())}
    for collector in Metrics().registry._collector_to_names:
        labels = frozenset(getattr(collector, "_labelnames", ()))
        assert hasattr(collector, "describe")
        (family,) = collector.describe()
        if family.type == "counter":
            series[family.name + "_total"] = ("counter", labels)
        elif family.type == "histogram":
            series[family.name + "_bucket"] = ("counter", labels | {"le"})
            series[family.name + "_sum"] = series[family.name + "_count"] = ("counter", labels)
        else:
            series[family.name] = ("gauge", labels)
    return series


SERIES = catalogue()


def tokens(query: str) -> list[tuple[str, str]]:
    """Kind and text of each token but space. Raises ValueError for what is no PromQL as it is used here."""
    found, at = [], 0
    while at < len(query):
        token = TOKEN.match(query, at)
        if token is None:
            raise ValueError(f"unreadable at {query[at : at + 20]!r}")
        if token.lastgroup != "space":
            found.append((str(token.lastgroup), token[0]))
        at = token.end()
    return found


def problems(query: str) -> Iterator[str]:
    """What is wrong with a query against the catalogue."""
    read = tokens(query)
    texts = [text for _, text in read]
    for pair in ("()", "{}"):
        if texts.count(pair[0]) != texts.count(pair[1]):
            yield f"{pair} do not match"
    named = {text for kind, text in read if kind == "name" and text in SERIES}
    known = SCRAPED | {"le"} | {label for one in named for label in SERIES[one][1]}
    inside = False
    for at, (kind, text) in enumerate(read):
        inside = text == "{" or (inside and text != "}")
        if kind != "name" or text in WORDS | FUNCTIONS:
            continue
        if text in SERIES:
            yield from _use(text, texts, at)
        elif text not in known:
            yield f"{text} is no metric of the catalogue, and no label of {sorted(named)}"
    if not named:
        yield "no metric"


def _use(name: str, texts: list[str], at: int) -> Iterator[str]:
    """One use of a metric: its selector's labels, and counters under rate or increase."""
    kind, labels = SERIES[name]
    end = at + 1
    if texts[end : end + 1] == ["{"]:
        closes = texts.index("}", end)
        for label in texts[end + 1 : closes : 4]:
            if label not in labels | SCRAPED:
                yield f"{name} has no label {label}"
        end = closes + 1
    ranged = texts[end : end + 1] and texts[end].startswith("[")
    called = texts[at - 2] if at >= 2 and texts[at - 1] == "(" else ""
    if ranged and called not in (COUNTED if kind == "counter" else AVERAGED):
        yield f"{name} is a {kind}, and {called or 'nothing'} of it is taken over time"
    if called in COUNTED | AVERAGED and not ranged:
        yield f"{called} of {name} wants a range"


@pytest.mark.parametrize(("where", "query"), QUERIES, ids=[f"{at} {where}" for at, (where, _) in enumerate(QUERIES)])
def test_every_query_names_what_the_service_shows(where: str, query: str) -> None:
    assert not list(problems(query)), query


@pytest.mark.parametrize(
    "query",
    [
        "rate(memory_proxy_request_total[5m])",
        "rate(memory_proxy_requests[5m])",
        'rate(memory_proxy_requests_total{rout="chat"}[5m])',
        "sum by (stage) (rate(memory_proxy_requests_total[5m]))",
        "rate(memory_proxy_queue_entries[5m])",
        "avg_over_time(memory_proxy_requests_total[5m])",
        "avg_over_time(memory_proxy_queue_entries)",
        "rate(memory_proxy_requests_total)",
        "memory_proxy_added_seconds",
        "sum(rate(memory_proxy_requests_total[5m])",
        "rate(memory_proxy_requests_total[5m]) ; 1",
    ],
)
def test_a_query_that_asks_for_what_is_not_there_is_found(query: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        assert not list(problems(query))


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_every_panel_says_what_it_shows_in_which_unit(panel: dict[str, Any]) -> None:
    assert panel["title"] and len(panel["description"]) > 20
    assert panel["fieldConfig"]["defaults"]["unit"] in {"s", "reqps", "ops", "short", "percentunit", "bytes"}
    assert panel["targets"]


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_what_a_panel_shows_is_of_its_unit(panel: dict[str, Any]) -> None:
    """No count a second among bytes or seconds: 0.2 of them was shown as 0.2 B."""
    if panel["fieldConfig"]["defaults"]["unit"] in {"bytes", "s"}:
        counted = [one["expr"] for one in panel["targets"] if re.search(r"(rate|increase)\(\w+_total", one["expr"])]
        assert not counted


def test_the_need_for_the_web_is_shown_as_a_share_of_all_questions() -> None:
    """The panel warned of some per cent of what it left out, so nobody could see them."""
    (panel,) = (panel for panel in PANELS if panel["title"] == "Questions that need the web")
    (target,) = panel["targets"]
    looked_at = 'sum (rate(memory_proxy_outside_needs_total{instance=~"$instance"}[$__rate_interval]))'
    assert panel["fieldConfig"]["defaults"]["unit"] == "percentunit"
    assert target["expr"].endswith(f" / scalar({looked_at})")


def test_a_number_is_red_where_it_is_a_fault_and_nowhere_else() -> None:
    """Where a panel names no thresholds Grafana's are 80: a leak was shown green, and many hot scopes red."""
    steps = {
        panel["title"]: [
            (step["value"], step["color"]) for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        ]
        for panel in PANELS
        if panel["type"] == "stat"
    }
    assert steps == {
        "Since the last consolidation": [(None, "green"), (172_800, "red")],
        "Hot scopes held": [(None, "green")],
        "Erasures that wait": [(None, "green"), (1, "red")],
        "Foreign canaries": [(None, "green"), (1, "red")],
    }


def test_the_dashboard_has_a_row_for_each_subject_and_no_two_panels_overlap() -> None:
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == [
        "Requests",
        "Latency by stage",
        "Memory given",
        "Ledger and prefix cache",
        "Load",
        "Capture and queue",
        "Write path",
        "Hygiene",
        "Stores",
        "Erasure and audit",
        "Outside knowledge",
    ]
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {text for _, query in QUERIES for kind, text in tokens(query) if kind == "name"}
    families = {family.name for family in Metrics().registry.collect()}
    missing = {one for one in families if not any(name.startswith(one) for name in shown)}
    assert not missing


def test_no_query_asks_for_what_a_restart_sets_back() -> None:
    """A counter by itself is 0 again after a restart: a leak of an hour ago would be seen by nobody."""
    for where, query in QUERIES:
        texts = [text for _, text in tokens(query)]
        for at, text in enumerate(texts):
            if SERIES.get(text, ("",))[0] == "counter":
                assert texts[at - 1] == "(" and texts[at - 2] in COUNTED, where


def test_the_dashboard_is_what_its_script_makes() -> None:
    script = DEPLOY / "grafana" / "make_dashboard.py"
    made = subprocess.run([sys.executable, str(script), "--print"], capture_output=True, text=True, check=True).stdout
    assert made == (DEPLOY / "grafana" / "memory-proxy.json").read_text(), f"run: python {script.relative_to(DEPLOY)}"


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_every_alert_says_what_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert re.fullmatch(r"\d+[mh]", rule["for"])
    assert rule["labels"]["severity"] in {"page", "ticket"}
    said = rule["annotations"]
    assert all(len(said[part]) > 20 for part in ("summary", "description", "runbook"))
    # A label in a template must be one that the expression leaves standing.
    for label in re.findall(r"\$labels\.(\w+)", " ".join(said.values())):
        by = re.findall(r"by \(([^)]*)\)", rule["expr"])
        (first, *_) = (text for kind, text in tokens(rule["expr"]) if kind == "name" and text in SERIES)
        left = {one.strip() for one in ",".join(by).split(",")} if by else SERIES[first][1] | SCRAPED
        assert label in left


def test_alerts_have_names_of_their_own_and_the_ones_that_matter_are_there() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
    wanted = "CapturesLost QueueOldest DegradedShare DeadLetters UpstreamFailures CanarySeen HygieneBad WorkerStuck"
    assert set(wanted.split()) <= set(names)


def test_a_store_that_is_away_wakes_somebody_though_nobody_asks_it() -> None:
    """Breakers and shares of requests move with requests alone: an idle service looked well for a whole night."""
    (rule,) = (rule for rule in RULES if "memory_proxy_dependency_away" in rule["expr"])
    assert rule["labels"]["severity"] == "page" and "by (instance, dependency)" in rule["expr"]


def test_answers_that_fail_wake_somebody_whoever_failed() -> None:
    """An upstream that answers is no upstream failure, also where it answers 500 to everybody."""
    (rule,) = (rule for rule in RULES if 'status="5xx"' in rule["expr"])
    assert rule["labels"]["severity"] == "page" and 'route!="own"' in rule["expr"]


@pytest.mark.parametrize("where", ["DegradedShare", "Memories and tokens placed, each request"])
def test_requests_with_memory_off_are_no_part_of_what_memory_is_judged_by(where: str) -> None:
    """Beside many completions of an editor all chats went on without memory, and the share stayed below its bound."""
    for query in (query for at, query in QUERIES if at == where):
        (all_of_them,) = re.findall(r"/ sum.*\(rate\(memory_proxy_memory_status_total\{([^}]*)\}", query)
        assert 'status!="off"' in all_of_them


def test_a_service_whose_queue_another_ones_workers_empty_is_not_stuck() -> None:
    """Services of one store share its queue: the workers of one may store all of it, and the others store none."""
    (rule,) = (rule for rule in RULES if rule["alert"] == "WorkerStuck")
    waits, found, _ = rule["expr"].partition(" unless ")
    oldest = "memory_proxy_queue_oldest_seconds"
    assert found and waits == f"max by (instance) ({oldest} - {oldest} offset 10m) > 570"


def test_the_nightly_run_that_is_overdue_is_run_by_what_the_runbook_says() -> None:
    """Without --now the command shows the last run and starts none."""
    (rule,) = (rule for rule in RULES if rule["alert"] == "ConsolidationOverdue")
    (command,) = re.findall(r"`memory-proxy ([^`]+)`", rule["annotations"]["runbook"])
    assert build_parser(command.split()).parse_args(command.split()).now


def test_what_is_wrong_with_a_part_of_the_memories_is_seen_by_an_alert() -> None:
    """Each sample is of another part: one that is clean would reset the hour for which it must be so. Who leaves the
    measuring to another says NaN, and an average over one NaN is NaN: nothing was seen for six hours.
    """
    (rule,) = (rule for rule in RULES if rule["alert"] == "HygieneBad")
    uses = re.findall(r"(\w*)\(\(memory_proxy_hygiene_ratio\{[^}]*\} >= 0\)(\[[\w:]+\])?", rule["expr"])
    assert uses == [("avg_over_time", "[6h:1m]")] * 2
    assert rule["expr"].count("memory_proxy_hygiene_ratio") == 2


def test_junk_and_duplicates_are_added_up_as_the_page_adds_them_up() -> None:
    """Four in a hundred of each are eight that are not worth keeping."""
    assert "hygiene `junk` + `duplicate` above .05" in (DEPLOY.parent / "docs" / "metrics.md").read_text()
    (rule,) = (rule for rule in RULES if rule["alert"] == "HygieneBad")
    both = 'sum by (instance) (avg_over_time((memory_proxy_hygiene_ratio{rate=~"junk|duplicate"} >= 0)[6h:1m]))'
    assert f'label_replace( {both}, "rate", "junk or duplicate", "", "") > 0.05' in rule["expr"]


def test_what_happens_once_is_seen_by_an_alert() -> None:
    """`increase` does not see the first of a series that was absent: what alerts watch is there from the start."""
    exposed = Metrics().exposition().decode()
    watched = {
        one for rule in RULES for one in re.findall(r"increase\((memory_proxy_\w+(?:\{[^}]*\})?)\[", rule["expr"])
    }
    assert len(watched) >= 8
    for series in watched:
        assert re.search(rf"^{re.escape(series)}(\{{[^}}]*\}})? 0\.0$", exposed, re.MULTILINE), series


def test_a_fault_of_ours_in_the_memory_worker_is_seen_by_an_alert() -> None:
    """The page said so of two counters that no rule watched. A store that refused the facts of four exchanges was eight
    faults in half a minute, and who is taken six times is given up.
    """
    (rule,) = (rule for rule in RULES if rule["alert"] == "WorkFailed")
    for counted in ('memory_proxy_work_total{what="unforeseen"}', 'memory_proxy_extractions_total{outcome="fault"}'):
        assert f"increase({counted}[1h])" in rule["expr"]


@pytest.mark.parametrize(
    "metric",
    ["checkpoints", "tasks", "artifacts", "entities", "personas", "hand_off", "work", "overload_steps"],
)
def test_what_is_done_once_is_seen_on_the_dashboard(metric: str) -> None:
    """`rate` does not see the first of a series that was absent: of a checkpoint, a persona, a task, a file and an
    entity, each the first of its service, the panel showed none.
    """
    exposed = Metrics().exposition().decode()
    page = (DEPLOY.parent / "docs" / "metrics.md").read_text()
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `memory_proxy_{metric}_total`"))
    done = re.findall(r"`(\w+)`", row.split("|")[4])
    assert len(done) >= 2
    for one in done:
        assert re.search(rf'^memory_proxy_{metric}_total{{\w+="{one}"}} 0\.0$', exposed, re.MULTILINE), one


def test_the_rows_of_the_first_night_and_the_first_that_was_shed_are_seen_on_the_dashboard() -> None:
    exposed = Metrics().exposition().decode()
    for series in [f'consolidated_total{{step="{step}"}}' for step in STEPS] + [
        f'recalls_shed_total{{what="{what}"}}' for what in ("place", *LADDER[1:])
    ]:
        assert f"\nmemory_proxy_{series} 0.0\n" in exposed


def test_seconds_of_a_step_do_not_stand_beside_the_hours_since_the_last_run() -> None:
    """Of a day since the run, its steps of a tenth of a second were a line at the bottom."""
    for panel in PANELS:
        asked = [target["expr"] for target in panel["targets"]]
        assert len(asked) == 1 or not any("time()" in one for one in asked), panel["title"]


def test_the_run_that_ended_longest_ago_is_the_one_that_is_shown() -> None:
    """Of two services on stores of their own the newer run hid that the other's was overdue."""
    (query,) = (query for where, query in QUERIES if where == "Since the last consolidation")
    assert query == 'time() - (min (memory_proxy_consolidation_end_seconds{instance=~"$instance"} > 0))'


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("First byte of vLLM", "of an answer that is not streamed, all the time"),
        ("Working contexts", "of each session the first one"),
        ("Requests that lacked the store or the ledger", "which is no fault"),
        ("Staleness of hot scopes", "at most, the time that the question's vector took"),
    ],
)
def test_a_panel_names_what_else_makes_its_values_large(title: str, words: str) -> None:
    """p99 of the first byte was 247 ms before a model that began at once, 37 % of the contexts were rebuilt and a fifth
    of the requests were said to lack the ledger while nothing was away.
    """
    (panel,) = (panel for panel in PANELS if panel["title"] == title)
    assert words in panel["description"]


def test_an_index_that_is_a_little_older_than_its_bound_is_not_shown_as_of_seconds() -> None:
    """A quantile lies within a bucket: 1.02 s were shown as 2.3 where the next bound behind 1 was 2.5."""
    metrics = Metrics()
    metrics.scope_staleness_seconds.observe(1.02)
    assert '\nmemory_proxy_scope_staleness_seconds_bucket{le="1.1"} 1.0\n' in metrics.exposition().decode()


def test_a_spool_that_the_disk_has_damaged_is_seen_by_an_alert() -> None:
    """Of six acknowledged exchanges five were stored, and nothing said so but a line of the log."""
    (rule,) = (rule for rule in RULES if 'memory_proxy_hand_off_total{what="spool_damaged"}' in rule["expr"])
    assert rule["labels"]["severity"] == "page"


def test_a_model_that_takes_no_facts_out_is_seen_by_an_alert() -> None:
    """After extract.defer_max_s the rules take what waits, so that none of it grows: of 173 exchanges a model was asked
    about it took no fact out of any, and nothing said so.
    """
    (rule,) = (rule for rule in RULES if re.search(r'extractions_total\{outcome=~"[^"]*late', rule["expr"]))
    taken, of_all = re.findall(r'extractions_total\{outcome(=~|!~)"([a-z_|]+)"\}', rule["expr"])
    assert taken[0] == "=~" and {"late", "refused", "unusable"} <= set(taken[1].split("|"))
    assert of_all == ("!~", "unavailable|fault"), "tries that come again are no exchanges"
    assert set(f"{taken[1]}|{of_all[1]}".split("|")) <= {*get_args(Done), "unavailable", "fault"}


def test_the_scrape_asks_for_the_metrics_where_the_service_listens() -> None:
    (job,) = SCRAPE["scrape_configs"]
    listen = Settings().listen
    assert job["metrics_path"] == "/memory/metrics"
    assert job["static_configs"] == [{"targets": [f"{listen.host}:{listen.port}"]}]
    assert SCRAPE["rule_files"] == ["alerts.yaml"]
    assert f'job="{job["job_name"]}"' in next(rule["expr"] for rule in RULES if rule["alert"] == "MemoryProxyDown")


def test_the_stages_that_queries_choose_exist() -> None:
    found = [one for _, query in QUERIES for one in re.findall(r'stage(?:=|!~)"([a-z|]+)"', query)]
    chosen = {stage for one in found for stage in one.split("|")}
    assert chosen and chosen <= set(Stage.__args__)  # type: ignore[attr-defined]


def test_the_reasons_that_queries_choose_are_given_to_somebody() -> None:
    api = (DEPLOY.parent / "docs" / "api.md").read_text()
    (status,) = (line for line in api.splitlines() if line.startswith("| `X-Memory-Status`"))
    given = set(re.findall(r"`(\w+)`", status.partition("reason=")[2].partition("rung=")[0]))
    found = [one for _, query in QUERIES for one in re.findall(r'reason=~?"([a-z_|]+)"', query)]
    chosen = {reason for one in found for reason in one.split("|")}
    assert {"store", "ledger", "overload"} <= given
    assert chosen - {"copies_full"} <= given


def test_the_slowest_of_our_stages_are_not_shown_beside_the_minutes_of_vllm() -> None:
    (query,) = (query for where, query in QUERIES if where == "p99 by stage")
    assert 'stage!~"upstream|stream"' in query
