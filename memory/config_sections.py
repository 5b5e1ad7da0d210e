"""The sections of the configuration: one frozen model each, every field with default, bounds and meaning.

In: plain values, already read from a file, the environment or the command line. Out: values that keep their bounds.
Refuses unknown keys and implicit conversions (`"8080"` is not a number). Reads no file and no environment.
Units stand last in a name: `_ms`, `_s`, `_bytes`, `_max`, `_days`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memory.config_values import (
    ClockTime,
    CollectorUrl,
    Directory,
    Host,
    HttpUrl,
    HttpUrls,
    Key,
    PostgresUrl,
    RedisUrl,
    Section,
    UpstreamUrl,
    Word,
)


class Listen(Section):
    """Where the proxy listens, and with how many processes."""

    host: Host = Field(default="127.0.0.1", description="Address to bind.")
    port: int = Field(default=8080, ge=0, le=65535, description="TCP port; 0 takes any free one.")
    open_on_network: bool = Field(
        default=False,
        description="Allow auth.mode open on an address that is not loopback: whoever reaches the port is trusted.",
    )
    workers: int = Field(default=1, ge=1, le=256, description="Proxy processes; all share one listening socket.")
    keepalive_s: float = Field(
        default=75,
        ge=0,
        le=86_400,
        description="Seconds an idle connection is kept; above that of a load balancer in front avoids reset races.",
    )
    drain_s: float = Field(
        default=30, ge=0, le=86_400, description="Seconds that running streams get to finish on SIGTERM."
    )


class Upstream(Section):
    """The vLLM server behind the proxy. It need not be there when the proxy starts."""

    url: UpstreamUrl = Field(
        default="http://127.0.0.1:8000", description="Base address of vLLM, with or without /v1 at its end."
    )
    api_key: Key | None = Field(
        default=None, description="Key sent upstream in auth.mode keys; null sends none. Better set in the environment."
    )
    connect_timeout_s: float = Field(default=5, gt=0, le=600, description="Seconds to open a connection to vLLM.")
    cache_salt: Literal["tenant", "off"] | None = Field(
        default=None,
        description="Separate vLLM's prefix cache by tenant. null: tenant in auth.mode keys, off in open.",
    )
    keepalive_s: float = Field(
        default=4,
        ge=0,
        le=600,
        description="Seconds an idle connection is kept; less than vLLM's own 5 s avoids reset races.",
    )
    sensitivity_max: Literal["public", "internal", "confidential", "secret"] | None = Field(
        default=None, description="Memory above this label is never sent there; null: whatever the caller may see."
    )
    metrics_urls: HttpUrls = Field(
        default=(), description="vLLM's /metrics addresses; background work pauses while requests wait there."
    )


class Auth(Section):
    """Who may ask."""

    mode: Literal["open", "keys"] = Field(
        default="open", description="open: one trust domain, users are labels. keys: scope comes from the credential."
    )
    stale_max_s: float = Field(
        default=3600,
        ge=0,
        le=604_800,
        description="Seconds a known key stays valid while the key table cannot be read; 2 at least.",
    )


class Identity(Section):
    """Whose memory, where neither header, `memory` object nor key says so."""

    from_openai_user: bool = Field(
        default=True, description="Take `safety_identifier`, then `user`, of the OpenAI body."
    )


class Database(Section):
    """Postgres 15+ with pgvector 0.8+. Without a URL the embedded one runs in the data directory."""

    url: PostgresUrl | None = Field(default=None, description="Server to use; null runs the embedded Postgres.")
    owner_url: PostgresUrl | None = Field(
        default=None, description="The same server as the role that migrates; null: url."
    )
    pool_size: int = Field(
        default=4, ge=1, le=100, description="Connections of one proxy process; a memory worker opens 9 at most."
    )
    statement_timeout_ms: int = Field(
        default=5000, ge=100, le=3_600_000, description="Bound on one statement of a request."
    )


class Redis(Section):
    """Redis 7+ or Valkey 8+. Without a URL the embedded Valkey runs in the data directory."""

    url: RedisUrl | None = Field(
        default=None,
        description="Server of the durable queue; null runs the embedded Valkey. One or more nodes of a cluster: "
        "redis+cluster://HOST:PORT,HOST:PORT.",
    )
    cache_url: RedisUrl | None = Field(default=None, description="Server for what may be evicted; null: url.")


class Queue(Section):
    """The durable queue between the answer and the memory."""

    durability: Literal["fsync", "process", "replicated"] = Field(
        default="fsync",
        description="What an external server gives: fsync to disk; process: outlives ours; replicated: WAITAOF 1 1.",
    )
    capture_hold_ms: float = Field(
        default=50,
        ge=0,
        le=10_000,
        description="Longest wait of an answer's last byte for the queue; then for the spool, 2 s at most.",
    )
    spool_bytes: int = Field(
        default=67_108_864,
        ge=1_048_576,
        le=1_099_511_627_776,
        description="Preallocated spool file of one proxy process.",
    )
    lanes: int = Field(
        default=64,
        ge=1,
        le=1024,
        description="Lanes of each class, a quarter of them for each tenant, 8 at least; a user's exchanges keep to "
        "one lane, and so to their order. Change it while nothing waits: what does stays in its lane, and may be "
        "stored behind what comes then.",
    )
    attempts_max: int = Field(default=8, ge=1, le=1000, description="Attempts before an entry becomes a dead letter.")
    request_bytes_max: int = Field(default=33_554_432, ge=1024, le=1_073_741_824, description="Largest request kept.")
    answer_bytes_max: int = Field(default=33_554_432, ge=1024, le=1_073_741_824, description="Largest answer kept.")
    copies_bytes_max: int = Field(
        default=268_435_456,
        ge=1024,
        le=1_099_511_627_776,
        description="Copies of answers under way in one proxy process; beyond it the question alone is kept.",
    )


class Recall(Section):
    """What one request may be given, and how long that may take."""

    deadline_ms: float = Field(
        default=250, ge=1, le=60_000, description="After this the request goes on without memory."
    )
    budget_tokens_max: int = Field(default=1000, ge=0, le=1_000_000, description="Newly placed tokens of one request.")
    episodes_max: int = Field(default=10, ge=0, le=200, description="Episodes placed.")
    facts_max: int = Field(default=20, ge=0, le=200, description="Facts placed.")
    procedures_max: int = Field(default=5, ge=0, le=200, description="Procedures placed.")
    tasks_max: int = Field(default=10, ge=0, le=200, description="Tasks placed.")
    hot_scope_bytes_max: int = Field(
        default=1_073_741_824,
        ge=0,
        le=1_099_511_627_776,
        description="In-process index of hot scopes, for one process; 100,000 memories take about 350 MiB.",
    )
    scope_staleness_max_ms: int = Field(
        default=1000, ge=0, le=60_000, description="Longest use of a cached scope after its last confirmation."
    )
    candidates_max: int = Field(
        default=20, ge=1, le=10_000, description="Candidates judged and recorded for one request, best first."
    )
    reranker_dir: Directory | None = Field(
        default=None, description="Directory of a cross-encoder, model.onnx and tokenizer.json; null: no re-ranking."
    )
    rerank_depth: int = Field(default=20, ge=1, le=200, description="Candidates the cross-encoder reads, best first.")
    rerank_weight: float = Field(
        default=0.5, ge=0, le=1, description="Its part in the order; the rest is the place it had before."
    )
    rerank_threads: int = Field(default=2, ge=1, le=256, description="ONNX threads of the cross-encoder.")


class Ledger(Section):
    """What was placed in earlier turns and is placed again at the same position."""

    tokens_max_share: float = Field(default=0.10, ge=0, le=1, description="Ceiling, as a share of the model's window.")
    deadline_ms: float = Field(
        default=125,
        ge=1,
        le=60_000,
        description="Longest look for a conversation and what was placed in it, inside recall.deadline_ms.",
    )
    cache_bytes_max: int = Field(
        default=67_108_864,
        ge=0,
        le=1_099_511_627_776,
        description="Blocks at hand in one proxy process; 64 MiB are some 11,000.",
    )


class Session(Section):
    """How a conversation is recognised by its message chain."""

    regenerate_window_s: float = Field(
        default=600,
        ge=0,
        le=86_400,
        description="Seconds in which a resent conversation is another attempt at the same turn.",
    )
    replay_turns: int = Field(
        default=0,
        ge=0,
        le=200,
        description="Last turns that the block quotes where a client names its session and sends only what is new.",
    )
    working_tokens: int = Field(
        default=1000,
        ge=0,
        le=16_000,
        description="Tokens of recent turns in a session's working context. 0: none is kept.",
    )
    hot_ttl_s: int = Field(
        default=86_400,
        ge=60,
        le=2_592_000,
        description="Seconds for which Redis holds what was placed in a conversation and its answers' digests; after "
        "them Postgres says it. An exchange takes 2 kB.",
    )
    working_ttl_s: int = Field(
        default=3600,
        ge=1,
        le=604_800,
        description="Seconds for which Redis holds the working context of a session after it was last spoken in.",
    )


class Checkpoint(Section):
    """What may be kept under a name and given to a conversation again."""

    tokens_max: int = Field(default=1500, ge=1, le=1_000_000, description="Tokens that a load may add to a block.")
    facts_max: int = Field(
        default=20,
        ge=0,
        le=1000,
        description="Facts taken along of a conversation, newest first; of open tasks and pinned preferences as many.",
    )
    parts_max: int = Field(default=64, ge=1, le=1000, description="Notes, goals, facts and so on of one checkpoint.")


class Preferences(Section):
    """What is learnt of a user's taste."""

    style_notes_max: int = Field(
        default=2,
        ge=0,
        le=4,
        description="Wishes about how answers are written, as learnt, that a new conversation is told; 0: none.",
    )


class Summary(Section):
    """The rolling summary of a conversation."""

    every_turns: int = Field(default=12, ge=1, le=10_000, description="Turns between two summaries.")
    every_tokens: int = Field(
        default=8000, ge=1, le=10_000_000, description="Tokens said since the last summary that make a new one due too."
    )
    sentences_max: int = Field(default=8, ge=1, le=1000, description="Sentences of an extractive summary.")


class Episode(Section):
    """What is kept of a conversation when it has ended."""

    enabled: bool = Field(default=True, description="Keep an episode of each conversation that ended.")
    idle_s: float = Field(
        default=1800, gt=0, le=31_536_000, description="Seconds without a message after which a conversation has ended."
    )
    turns_max: int = Field(
        default=60, ge=2, le=1000, description="Turns of one episode; a conversation of more is told in several."
    )
    tokens_max: int = Field(default=32_000, ge=100, le=10_000_000, description="Tokens of the turns of one episode.")
    sentences_max: int = Field(default=8, ge=1, le=1000, description="Sentences of its summary.")
    sweep_s: float = Field(
        default=60, gt=0, le=86_400, description="Seconds between two looks for conversations that ended."
    )
    sessions_max: int = Field(default=50, ge=1, le=100_000, description="Episodes made at one look.")


class Procedure(Section):
    """How things are done, as people teach it and as it was done before."""

    approve: Literal["taught", "all", "none"] = Field(
        default="taught",
        description="taught: what a user teaches is used at once, what was only done waits for `memories review`. "
        "all: both are used. none: both wait.",
    )


class Embedding(Section):
    """The model that turns text into vectors."""

    model: Word = Field(
        default="all-MiniLM-L6-v2-int8",
        description="What a new store begins with; later only `memory-proxy reembed` changes a store's model.",
    )
    directory: Directory | None = Field(
        default=None, description="Directory with model.onnx and tokenizer.json; null: the packaged model."
    )
    dim: int | None = Field(default=None, ge=1, le=16_000, description="Expected dimension; null: the model's own.")
    threads: int = Field(default=1, ge=1, le=256, description="ONNX threads of one process.")
    cache_dir: Directory | None = Field(
        default=None, description="Where prepared models lie; null: $XDG_CACHE_HOME/memory-proxy/models."
    )
    on_lost_model: Literal["refuse", "words"] = Field(
        default="refuse",
        description="The stored vectors' model cannot be loaded: refuse to start; words: find by words until reembed.",
    )


class Tokenizer(Section):
    """How tokens of the served model are counted."""

    directory: Directory | None = Field(
        default=None,
        description="Directory with the served model's tokenizer.json, to count memory's tokens; null: an estimate.",
    )


PersonalAction = Literal["keep", "mask", "tokenise", "drop"]


class Personal(Section):
    """Personal data in what is stored, of all tenants: keep, mask, tokenise (`redact --reveal` turns it back) or drop.

    Secrets are always cut out. A change holds for what is stored from then on and for what recall shows;
    `memory-proxy redact --scan --apply` does the rest.
    """

    email: PersonalAction = Field(default="keep", description="E-mail addresses.")
    phone: PersonalAction = Field(default="keep", description="Telephone numbers.")
    iban: PersonalAction = Field(default="keep", description="Bank accounts by their check digits.")
    card: PersonalAction = Field(default="keep", description="Payment cards by their check digit.")
    national_id: PersonalAction = Field(
        default="keep", description="Ids of ES, IT, FR, BR, CN, PL by their check digits."
    )
    address: PersonalAction = Field(default="keep", description="Postal addresses that look like one.")


class Replay(Section):
    """How long the exact request can be rebuilt."""

    retention_days: float = Field(default=7, ge=0, le=36_500, description="Days the sealed parts are kept.")


class Audit(Section):
    """The log of who read, shared, changed and was refused what."""

    retention_days: float | None = Field(
        default=None, ge=2, le=36_500, description="Days its rows are kept; null: for ever. The chain stays verifiable."
    )


class Retention(Section):
    """How long a memory is in answers, by its kind, from when it is stored; null: for ever. And when facts go stale."""

    working_days: float | None = Field(default=None, gt=0, le=36_500, description="State of a session.")
    episodic_days: float | None = Field(default=None, gt=0, le=36_500, description="What was said and what happened.")
    semantic_days: float | None = Field(
        default=None, gt=0, le=36_500, description="Facts; one that is said again lives anew."
    )
    procedural_days: float | None = Field(default=None, gt=0, le=36_500, description="How things are done.")
    summary_days: float | None = Field(default=None, gt=0, le=36_500, description="Summaries, from their last renewal.")
    document_days: float | None = Field(default=None, gt=0, le=36_500, description="Chunks of documents.")
    expired_keep_days: float = Field(
        default=30,
        ge=0,
        le=36_500,
        description="Days from expiry, when it leaves all answers, to erasure; at least replay.retention_days.",
    )
    revalidate_fact_days: float | None = Field(
        default=365, gt=0, le=36_500, description="A fact not said or reviewed for so long is listed for review."
    )
    revalidate_preference_days: float | None = Field(
        default=None, gt=0, le=36_500, description="The same for preferences."
    )
    revalidate_convention_days: float | None = Field(
        default=365, gt=0, le=36_500, description="The same for conventions."
    )
    revalidate_topology_days: float | None = Field(
        default=90, gt=0, le=36_500, description="The same for what runs where and how it hangs together."
    )
    revalidate_decision_days: float | None = Field(default=180, gt=0, le=36_500, description="The same for decisions.")


class Consolidate(Section):
    """The nightly work on what is stored: what has had its time goes, and stays within bounds."""

    at: ClockTime | None = Field(default="03:00", description="When it begins, UTC; null: only by the command.")
    superseded_keep_days: float = Field(
        default=180,
        ge=0,
        le=36_500,
        description="Days a fact that another took the place of can come back; at least replay.retention_days.",
    )
    never_used_keep_days: float | None = Field(
        default=None, gt=0, le=36_500, description="Hide what was never placed in a prompt for so long; null: never."
    )
    compress_after_days: float | None = Field(
        default=90, gt=0, le=36_500, description="Episodes of a month older than this become one; null: never."
    )
    rows_max: int | None = Field(
        default=None, ge=1, le=1_000_000_000_000, description="Memories of one tenant; the least worth are hidden."
    )
    bytes_max: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000_000_000_000,
        description="The same in bytes: text of the current versions and vectors.",
    )
    pause_ms: float = Field(
        default=20,
        ge=0,
        le=60_000,
        description="Least pause after a change; else twice as long as it took.",
    )


class Worker(Section):
    """The processes that write memory, after the answer has left."""

    processes: int = Field(default=1, ge=1, le=256, description="Memory worker processes.")
    batch_max: int = Field(default=64, ge=1, le=10_000, description="Exchanges taken at once.")
    bulk_share_min: float = Field(
        default=0.2, ge=0, le=1, description="Share of the work kept for imports under live load."
    )


class ChatModel(Section):
    """The generative model for background work; without one everything works by rules."""

    model: Word | None = Field(default=None, description="Model name as LiteLLM spells it; null: rules only.")
    api_base: HttpUrl | None = Field(default=None, description="Its address; null: upstream.url.")
    api_key: Key | None = Field(default=None, description="Its key. Better set in the environment.")
    timeout_s: float = Field(default=60, gt=0, le=3600, description="Bound on one call.")


class Extract(Section):
    """How facts are taken out of what users say, after the answer has left."""

    by: Literal["rules", "vllm", "model", "off"] = Field(
        default="rules",
        description="rules: no model. vllm: the serving vLLM, on its prefix cache. model: chat_model. off: no facts.",
    )
    defer_max_s: float = Field(
        default=900, ge=0, le=86_400, description="Longest wait of an exchange for a model; then the rules take it."
    )
    concurrency: int = Field(default=1, ge=1, le=256, description="Questions of one memory worker at once.")
    wall_s: float = Field(default=60, gt=0, le=3600, description="Bound on one question, its answer read.")
    max_tokens: int = Field(default=768, ge=16, le=32_768, description="Longest answer, in tokens.")
    tokens_per_day: int = Field(
        default=1_000_000,
        ge=0,
        le=1_000_000_000_000,
        description="Tokens a tenant may cost in a UTC day, those served from the prefix cache not counted; of all "
        "memory workers together, counted in Redis.",
    )
    priority: int = Field(
        default=100,
        ge=0,
        le=2_147_483_647,
        description="Sent to vLLM, heeded with --scheduling-policy priority: higher waits longer. 0 sends none.",
    )
    running_max: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="Pause while vLLM runs more requests of others than this; null: only while requests wait there.",
    )


class Limits(Section):
    """Bounds against abuse, each of one proxy process. What is above is refused with 413, 408, 429 or 431."""

    body_bytes_max: int = Field(
        default=1_073_741_824, ge=1024, le=17_179_869_184, description="Largest body of a generation route, else 413."
    )
    bodies_bytes_max: int = Field(
        default=4_294_967_296,
        ge=1024,
        le=1_099_511_627_776,
        description="Bytes of the request bodies that one process holds at once, else 429, with those of WebSockets' "
        "messages that are not whole yet, else their socket is cut; worked on, they take two to three times as much.",
    )
    messages_max: int = Field(default=100_000, ge=1, description="Most messages of one chat request, else 413.")
    headers_max: int = Field(default=128, ge=16, le=10_000, description="Most headers of a request, else 431.")
    head_timeout_s: float = Field(
        default=30, gt=0, le=3600, description="Seconds for a new connection's first request head; then it is closed."
    )
    body_idle_timeout_s: float = Field(
        default=60,
        gt=0,
        le=3600,
        description="Longest silence inside a request's body, else 408.",
    )
    answer_idle_timeout_s: float = Field(
        default=300,
        gt=0,
        le=86_400,
        description="Longest time in which a client takes nothing of what waits for it; then its connection is closed.",
    )
    requests_max: int = Field(
        default=4096,
        ge=1,
        le=1_000_000,
        description="Requests to vLLM under way at once, by anybody, else 429. With keys the last eighth of these, and "
        "of the bytes of bodies, is kept for tenants that have little of them.",
    )
    recalls_max: int = Field(
        default=64,
        ge=1,
        le=1_000_000,
        description="Requests that memory works for at once; what is above, fairly by tenant, goes on without recall.",
    )
    requests_per_user_max: int | None = Field(
        default=None, ge=1, le=1_000_000, description="Chat requests of one user under way at once; null: no bound."
    )
    sessions_per_user_hour: int | None = Field(
        default=None, ge=1, le=1_000_000, description="Different conversations of one user in an hour; null: no bound."
    )


class Encryption(Section):
    """Encryption at rest. The key itself may stand in the environment: MEMORY_PROXY_MASTER_KEY, base64 of 32 bytes."""

    master_key_file: Directory | None = Field(
        default=None, description="File with the master key, 32 bytes; null: master.key in the data directory."
    )
    previous_master_key_file: Directory | None = Field(
        default=None, description="File with the master key before; null: none. Needed until `encryption rewrap` ended."
    )


class Erasure(Section):
    """Forgetting for good."""

    journal: Directory | None = Field(
        default=None,
        description="Where erasures are noted beside the database, so that an older copy of it is cleaned before it "
        "serves; keep it with the backups. null: erasures.ndjson in the data directory.",
    )
    salt_rotation_min_s: float = Field(
        default=3600, ge=0, le=2_592_000, description="A tenant's cache_salt is changed at most this often by erasures."
    )


class Injection(Section):
    """How much one source may write within an hour before the rest waits for a review."""

    foreign_writes_per_hour: int = Field(
        default=1000,
        ge=0,
        le=1_000_000_000,
        description="Memories of one tool in a session, or of an import by a key without memory:import:trusted. "
        "0: no bound.",
    )
    session_writes_per_hour: int = Field(
        default=3000, ge=0, le=1_000_000_000, description="Memories of the turns of one live session. 0: no bound."
    )


class Data(Section):
    """Where the embedded servers, the spool and the keys live."""

    dir: Directory | None = Field(
        default=None, description="Data directory; null: ~/.local/share/memory-proxy, as root /var/lib/memory-proxy."
    )


class Telemetry(Section):
    """Traces by OpenTelemetry, of the proxy workers. Without an endpoint nothing is loaded and no header changed."""

    otlp_endpoint: CollectorUrl | None = Field(
        default=None,
        description="Base address of a collector that takes OTLP over HTTP, as http://host:4318; null: no traces.",
    )
    trace_share: float = Field(
        default=1.0, ge=0, le=1, description="Share of the requests traced where the client has not decided."
    )
    spans_max: int = Field(
        default=4096, ge=64, le=1_000_000, description="Spans that wait to be sent; more are dropped and counted."
    )


class Log(Section):
    """What is written to standard error. Message text never is."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least level written.")
    format: Literal["json", "text"] = Field(default="json", description="One JSON object a line, or text for people.")
