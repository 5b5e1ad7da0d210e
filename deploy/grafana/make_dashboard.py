"""The Grafana dashboard: rows of panels below in, `memory-proxy.json` beside this file out.

    python deploy/grafana/make_dashboard.py           write it
    python deploy/grafana/make_dashboard.py --print   show it

Import the JSON in Grafana (Dashboards, New, Import) and choose your Prometheus. A test compares it with this script,
and every metric and label in it with the catalogue.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("memory-proxy.json")
WIDTH: Final = 24
HEIGHT: Final = 8
PREFIX: Final = "memory_proxy_"


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph, 8 of 24 columns wide. `queries`: legend and PromQL. `stat`: one number, red from `red_from` on."""

    title: str
    unit: str  # Grafana's: s, reqps, short, percentunit, bytes, ops
    about: str
    queries: tuple[tuple[str, str], ...]
    width: int = 8
    stat: bool = False
    red_from: int | None = None


def chosen(matching: str = "") -> str:
    """The instances that were chosen, and of their series those that match."""
    return f'{{instance=~"$instance"{", " + matching if matching else ""}}}'


def rate(metric: str, by: str = "", matching: str = "") -> str:
    """Per second, summed."""
    return f"sum{f' by ({by})' if by else ''} (rate({PREFIX}{metric}{chosen(matching)}[$__rate_interval]))"


def seldom(metric: str, by: str) -> str:
    """The same of what is done now and then in many ways: those alone that were."""
    return f"{rate(metric, by)} > 0"


def counted(metric: str, by: str) -> str:
    """Within the time that is shown, whatever was started again in it."""
    return f"sum by ({by}) (increase({PREFIX}{metric}{chosen()}[$__range]))"


def share(part: str, whole: str) -> str:
    """A quotient; no value where nothing happened."""
    return f"{part} / {whole}"


def shares(metric: str, by: str, matching: str = "") -> str:
    """Of all that a metric counts, by a label; no value where nothing happened."""
    return f"{rate(metric, by, matching)} / scalar({rate(metric)})"


def quantile(q: float, metric: str, by: str = "", matching: str = "") -> str:
    """A quantile of a histogram, in its unit."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({q}, {rate(metric + '_bucket', labels, matching)})"


def gauge(metric: str, how: str = "max", by: str = "") -> str:
    """A gauge over the instances."""
    return f"{how}{f' by ({by})' if by else ''} ({PREFIX}{metric}{chosen()})"


WITH_MEMORY: Final = rate("memory_status_total", matching='status!="off"')


ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "Requests",
        (
            Panel(
                "Requests by route",
                "reqps",
                "What comes, by route: chat has memory, generation and other are passed through, own is /memory/.",
                (("{{route}}", rate("requests_total", "route")),),
            ),
            Panel(
                "Answers by status class",
                "reqps",
                "Status classes of chat answers. 5xx of vLLM pass through; upstream faults beside tell which are ours.",
                (("{{status}}", rate("requests_total", "status", 'route="chat"')),),
            ),
            Panel(
                "Upstream faults, clients that left",
                "reqps",
                "connect: vLLM did not answer (502). midstream: it died in an answer. Clients that left are no fault.",
                (
                    ("upstream {{phase}}", rate("upstream_failures_total", "phase")),
                    ("clients left", rate("clients_left_total")),
                    ("sent again without block", rate("overflow_retries_total")),
                ),
            ),
        ),
    ),
    (
        "Latency by stage",
        (
            Panel(
                "Added before sending upstream",
                "s",
                "From the read body to the assembled prompt. p99 near recall.deadline_ms: recall is at its deadline.",
                tuple((f"p{p}", quantile(p / 100, "added_seconds")) for p in (50, 95, 99)),
            ),
            Panel(
                "p99 by stage",
                "s",
                "Stages of our own, in their order; embed and search lie inside recall, capture inside hold.",
                (("{{stage}}", quantile(0.99, "stage_seconds", "stage", 'stage!~"upstream|stream"')),),
                width=16,
            ),
            Panel(
                "Mean time by stage",
                "s",
                "Where an average request's time goes. upstream and stream are vLLM's, read is the client's.",
                (
                    (
                        "{{stage}}",
                        share(rate("stage_seconds_sum", "stage"), rate("stage_seconds_count", "stage")),
                    ),
                ),
                width=12,
            ),
            Panel(
                "First byte of vLLM",
                "s",
                "From sending upstream to the first byte of its answer: vLLM's queue and prefill; of an answer that is "
                "not streamed, all the time that vLLM takes to make it.",
                tuple((f"p{p}", quantile(p / 100, "stage_seconds", matching='stage="upstream"')) for p in (50, 99)),
                width=12,
            ),
        ),
    ),
    (
        "Memory given",
        (
            Panel(
                "Memory status",
                "percentunit",
                "Share of generation requests by memory status. degraded: chats went on without memory by a fault.",
                (("{{status}}", shares("memory_status_total", "status")),),
            ),
            Panel(
                "Degraded, by reason",
                "reqps",
                "Why memory was not, or not all, there: deadline, store, embedder, ledger, overflow, overload, error.",
                (("{{reason}}", rate("memory_status_total", "reason", 'reason!=""')),),
            ),
            Panel(
                "Recall by rung",
                "s",
                "p99 of recall by how far down the ladder it went.",
                (("p99 {{rung}}", quantile(0.99, "recall_seconds", "rung")),),
            ),
            Panel(
                "Memories and tokens placed, each request",
                "short",
                "What an average chat completion with memory on was newly given.",
                (
                    ("memories", share(rate("injected_memories_total"), WITH_MEMORY)),
                    ("tokens", share(rate("injected_tokens_total"), WITH_MEMORY)),
                ),
            ),
            Panel(
                "Staleness of hot scopes",
                "s",
                "Age of a scope's last confirmation when used: recall.scope_staleness_max_ms and, at most, the time "
                "that the question's vector took.",
                tuple((f"p{p}", quantile(p / 100, "scope_staleness_seconds")) for p in (50, 99)),
            ),
            Panel(
                "Hot scopes",
                "bytes",
                "Memory that hot scopes hold in all proxy workers; bounded by recall.hot_scope_bytes_max each.",
                (("bytes", gauge("hot_scope_bytes", "sum")),),
            ),
        ),
    ),
    (
        "Ledger and prefix cache",
        (
            Panel(
                "Blocks",
                "ops",
                "Blocks of memory in prompts: placed anew, kept where they stood, withdrawn. Kept ones keep the cache.",
                (("{{what}}", rate("ledger_blocks_total", "what")),),
            ),
            Panel(
                "Tokens of blocks",
                "short",
                "Tokens per second of these blocks; kept ones are cache hits for vLLM, placed ones are prefill.",
                (("{{what}}", rate("ledger_tokens_total", "what")),),
            ),
            Panel(
                "Withdrawn, by reason",
                "ops",
                "Each costs the prefix cache what came after it. Erasure and correction do; overflow should be rare.",
                (("{{reason}}", rate("ledger_withdrawn_total", "reason")),),
            ),
            Panel(
                "The client's own tokens from vLLM's cache",
                "percentunit",
                "Of later requests of a conversation, and what it would be without memory (an estimate).",
                (
                    (
                        "cached",
                        share(
                            rate("prompt_cached_tokens_total", "", 'part="client", request="later"'),
                            rate("prompt_tokens_total", "", 'part="client", request="later"'),
                        ),
                    ),
                    (
                        "without memory",
                        share(
                            rate("prompt_cached_expected_tokens_total"),
                            rate("prompt_tokens_total", "", 'part="client", request="later"'),
                        ),
                    ),
                ),
                width=24,
            ),
        ),
    ),
    (
        "Load",
        (
            Panel(
                "Rung at which requests begin",
                "short",
                "0 full, 1 no-rerank, 2 lexical, 3 ledger, 4 none, of the process where it is most; steps a second.",
                (("rung", gauge("overload_rung")), ("steps {{to}}", rate("overload_steps_total", "to"))),
            ),
            Panel(
                "Requests that had less of memory",
                "ops",
                "Because of load: place found none in time, else the rung they began at.",
                (("{{what}}", rate("recalls_shed_total", "what")),),
            ),
            Panel(
                "Checkpoints, personas, tasks, entities, files",
                "ops",
                "Saved, changed, branched, deleted; placed in a prompt, cut since too long, asked for and not there.",
                (
                    ("checkpoint {{what}}", seldom("checkpoints_total", "what")),
                    ("persona {{what}}", seldom("personas_total", "what")),
                    ("task {{what}}", seldom("tasks_total", "what")),
                    ("file {{what}}", seldom("artifacts_total", "what")),
                    ("entity {{what}}", seldom("entities_total", "what")),
                ),
            ),
            Panel(
                "Left alone",
                "short",
                "Processes that do not find a dependency, that leave it alone; how often that began; calls not made.",
                (
                    ("{{dependency}} away", gauge("dependency_away", "sum", "dependency")),
                    ("{{part}}", gauge("breaker_open", "sum", "part")),
                    ("trips of {{part}}", rate("breaker_trips_total", "part")),
                    ("not asked: {{part}}", rate("breaker_refused_total", "part")),
                ),
            ),
            Panel(
                "Late event loop, garbage collection",
                "s",
                "p99 of how late a proxy's loop comes round, and of the collector's pauses by generation.",
                (
                    ("loop", quantile(0.99, "loop_lag_seconds")),
                    ("generation {{generation}}", quantile(0.99, "gc_pause_seconds", "generation")),
                ),
            ),
            Panel(
                "Questions asked again",
                "ops",
                "Vectors and answers: hit known, miss computed, shared with the same question at that moment.",
                (
                    ("vector {{what}}", rate("query_embeddings_total", "what")),
                    ("answer {{what}}", rate("recall_answers_total", "what")),
                ),
            ),
            Panel(
                "Copies of answers under way",
                "bytes",
                "Held for capture; bounded by queue.copies_bytes_max. What is beyond is kept without its answer.",
                (("held", gauge("copies_bytes", "sum")),),
            ),
        ),
    ),
    (
        "Capture and queue",
        (
            Panel(
                "Captures by where they went",
                "ops",
                "queue is normal; spool: Valkey is away or slow; none: not durable. Lost ones are gone. Of some the "
                "question alone is kept: their answer was too large, or the copies of answers were full.",
                (
                    ("{{where}}", rate("captures_total", "where")),
                    ("lost", rate("captures_lost_total")),
                    ("without its answer: {{reason}}", rate("copies_refused_total", "reason")),
                ),
            ),
            Panel(
                "Entries that wait",
                "short",
                "Entries of the durable queue: pending, in_flight, background (for a model), dead (for you).",
                (("{{state}}", gauge("queue_entries", "max", "state")),),
            ),
            Panel(
                "Age",
                "s",
                "The oldest entry, and the age of exchanges when they became searchable.",
                (
                    ("oldest", gauge("queue_oldest_seconds")),
                    ("searchable p50", quantile(0.5, "searchable_seconds")),
                    ("searchable p99", quantile(0.99, "searchable_seconds")),
                ),
            ),
            Panel(
                "Last byte held",
                "s",
                "How long an answer's last byte waited for its capture.",
                tuple((f"p{p}", quantile(p / 100, "capture_seconds")) for p in (50, 99)),
                width=12,
            ),
            Panel(
                "Hand-off",
                "ops",
                "What the hand-off did: put_failed and spooled while the queue is away, drained when it is back.",
                (("{{what}}", rate("hand_off_total", "what")),),
                width=12,
            ),
        ),
    ),
    (
        "Write path",
        (
            Panel(
                "p95 by step",
                "s",
                "Steps of storing an exchange in the memory workers.",
                (("{{step}}", quantile(0.95, "write_seconds", "step")),),
            ),
            Panel(
                "Stored",
                "ops",
                "Turns, and memories by kind.",
                (("turns", rate("turns_total")), ("{{kind}}", rate("memories_total", "kind"))),
            ),
            Panel(
                "What the workers did",
                "ops",
                "stored is normal; transient: tried again; poison, buried: dead letters; unforeseen: a fault of ours.",
                (("{{what}}", rate("work_total", "what")),),
            ),
            Panel(
                "Documents",
                "ops",
                "Uploads: taken or refused at the door, later stored or, seldom, failed: the document says why.",
                (("{{outcome}}", rate("documents_total", "outcome")),),
            ),
            Panel(
                "Documents, p95",
                "s",
                "Reading a file in its own process; from a worker taking an upload to its chunks being stored.",
                (
                    ("read", quantile(0.95, "document_parse_seconds")),
                    ("stored", quantile(0.95, "document_seconds")),
                ),
            ),
            Panel(
                "Facts by a model",
                "ops",
                "With extract.by vllm or model: heard is good, the others were taken by the rules or come again.",
                (("{{outcome}}", rate("extractions_total", "outcome")), ("yielded", rate("extraction_yields_total"))),
            ),
            Panel(
                "Facts dropped",
                "ops",
                "Facts that the words do not bear out.",
                (("rules", rate("facts_dropped_total")), ("{{reason}}", rate("extraction_dropped_total", "reason"))),
            ),
            Panel(
                "Cached share of extraction prompts",
                "percentunit",
                "Below .9 extraction costs vLLM prefill.",
                (
                    (
                        "cached",
                        share(
                            rate("extraction_tokens_total", "", 'what="cached"'),
                            rate("extraction_tokens_total", "", 'what="prompt"'),
                        ),
                    ),
                ),
            ),
        ),
    ),
    (
        "Hygiene",
        (
            Panel(
                "What is wrong with memories",
                "percentunit",
                "Shares of a sample: junk and duplicate together below .05; loop, unsupported and secret at 0.",
                (("{{rate}}", gauge("hygiene_ratio", "max", "rate")),),
            ),
            Panel(
                "Held back and redacted",
                "ops",
                "Memories that wait for a review, by rule, and secrets replaced.",
                (
                    ("{{rule}}", rate("quarantined_total", "rule")),
                    ("over budget", rate("over_budget_total")),
                    ("redacted", rate("redactions_total")),
                ),
            ),
            Panel(
                "Consolidation",
                "s",
                "Time of the last nightly run by step.",
                (("{{step}}", gauge("consolidation_seconds", "max", "step")),),
            ),
            Panel(
                "Since the last consolidation",
                "s",
                "How long ago the nightly run ended; where none has, since when it is waited for. Red from two days.",
                (("ended ago", f"time() - (min ({PREFIX}consolidation_end_seconds{chosen()} > 0))"),),
                stat=True,
                red_from=172_800,
            ),
            Panel(
                "Consolidated",
                "ops",
                "Rows that consolidation changed, and ended sessions told.",
                (
                    ("{{step}}", seldom("consolidated_total", "step")),
                    ("told: {{what}}", seldom("episodes_total", "what")),
                ),
            ),
        ),
    ),
    (
        "Stores",
        (
            Panel(
                "Commit",
                "s",
                "The transaction of one exchange in Postgres: p50, p95, p99.",
                tuple((f"p{p}", quantile(p / 100, "write_seconds", matching='step="store"')) for p in (50, 95, 99)),
            ),
            Panel(
                "Requests that lacked the store or the ledger",
                "reqps",
                "Chat completions whose memory lacked Postgres (store), or the ledger: what stood in them could "
                "not be read, or they have all of the memory they may have (a share of the window), which is no fault.",
                (("{{reason}}", rate("memory_status_total", "reason", 'reason=~"store|ledger"')),),
            ),
            Panel(
                "Working contexts",
                "ops",
                "held: as Redis had it; advanced; rebuilt from Postgres, which is dearer: of each session the first "
                "one, of others because Redis lost or evicted it.",
                (("{{how}}", rate("working_contexts_total", "how")),),
            ),
            Panel(
                "Hot scopes held",
                "short",
                "Indexes in process, over all proxy workers; a scope is read anew when it was evicted.",
                (("scopes", gauge("hot_scopes", "sum")),),
                stat=True,
            ),
        ),
    ),
    (
        "Erasure and audit",
        (
            Panel(
                "Erasures",
                "ops",
                "complete; traces_left: look at the receipt; stopped: tried again later.",
                (("{{outcome}}", rate("erasures_total", "outcome")),),
            ),
            Panel(
                "Erasures that wait",
                "short",
                "Asked for, without a receipt yet.",
                (("waiting", gauge("erasures_waiting")),),
                stat=True,
                red_from=1,
            ),
            Panel(
                "Time to a receipt",
                "s",
                "From an erasure's request to its receipt.",
                tuple((f"p{p}", quantile(p / 100, "erasure_seconds")) for p in (50, 99)),
            ),
            Panel(
                "Audit rows",
                "ops",
                "written; dropped ones are missing from the log (the store was away too long).",
                (("{{what}}", rate("audit_total", "what")),),
            ),
            Panel(
                "Foreign canaries",
                "short",
                "Canaries of one tenant seen in a prompt or an answer of another. Anything but 0 is a leak.",
                (("{{where}}", counted("canary_seen_total", "where")),),
                stat=True,
                red_from=1,
            ),
            Panel(
                "Spans",
                "ops",
                "Spans of traces: sent, failed at the collector, dropped since too many waited.",
                (("{{what}}", rate("spans_total", "what")),),
            ),
        ),
    ),
    (
        "Outside knowledge",
        (
            Panel(
                "Questions that need the web",
                "percentunit",
                "Share of the questions looked at, by why they need it. Some per cent: the rules fire too often.",
                (("{{need}}", shares("outside_needs_total", "need", 'need!="none"')),),
            ),
            Panel(
                "Searches and pages by outcome",
                "ops",
                "found, nothing, withheld; read; else the reason: refused_address, robots, http_status and so on.",
                (
                    ("search {{outcome}}", rate("outside_searches_total", "outcome")),
                    ("page {{outcome}}", rate("outside_pages_total", "outcome")),
                ),
            ),
            Panel(
                "Time for the web, p95",
                "s",
                "By step; all is one question. Near outside.total_s: sites or the search service are slow.",
                (("{{step}}", quantile(0.95, "outside_seconds", "step")),),
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS:
        panels.append(_row(title, y, len(panels) + 1))
        x, y = 0, y + 1
        for panel in row:
            if x + panel.width > WIDTH:
                x, y = 0, y + HEIGHT
            panels.append(_panel(panel, x, y, len(panels) + 1))
            x += panel.width
        y += HEIGHT
    return {
        "title": "memory-proxy",
        "uid": "memory-proxy",
        "description": "What memory-proxy does and what it costs. The metrics: docs/metrics.md.",
        "tags": ["memory-proxy", "vllm"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_source(), _instances()]},
        "panels": panels,
    }


def rendered() -> str:
    """The file's text."""
    return json.dumps(dashboard(), indent=2) + "\n"


def _source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _instances() -> dict[str, Any]:
    query = f"label_values({PREFIX}requests_total, instance)"
    return {
        "name": "instance",
        "label": "Instance",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": query,
        "definition": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _row(title: str, y: int, number: int) -> dict[str, Any]:
    place = {"h": 1, "w": WIDTH, "x": 0, "y": y}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(panel: Panel, x: int, y: int, number: int) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    targets = [
        {"refId": chr(ord("A") + at), "datasource": source, "expr": query, "legendFormat": legend}
        for at, (legend, query) in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "type": "stat" if panel.stat else "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": source,
        "gridPos": {"h": HEIGHT, "w": panel.width, "x": x, "y": y},
        "fieldConfig": {"defaults": _shown(panel), "overrides": []},
        "targets": targets,
    }


def _shown(panel: Panel) -> dict[str, Any]:
    """Unit, least value and, of one number, its colour: where a panel says nothing Grafana's own is red from 80 on."""
    shown: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if not panel.stat:
        return shown
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.red_from is not None:
        steps.append({"color": "red", "value": panel.red_from})
    return shown | {"thresholds": {"mode": "absolute", "steps": steps}}


def main() -> int:
    """Write or print it."""
    if "--print" in sys.argv[1:]:
        sys.stdout.write(rendered())
    else:
        FILE.write_text(rendered())
    return 0


if __name__ == "__main__":
    sys.exit(main())
