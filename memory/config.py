"""The configuration: (file, environment, command line) -> Settings, or ConfigInvalid that names every fault at once.

Precedence: command line > environment > file > default. A fault names its place (file and line, variable, command
line), the dotted key, what was expected and what was found; the content of a secret is never shown.
`render_config` writes the commented file, `digest` names the settings an answer depended on, and `write_private` with
`settings_from_environ` carry the resolved settings from the supervisor to its children.
Refuses unknown keys, unknown MEMORY_PROXY_ variables, and `open` on a network address unless it is forced.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from memory.config_documents import Artifacts, Documents
from memory.config_file import FILE_BYTES_MAX, Problem, parse_config, parse_scalar
from memory.config_outside import Outside
from memory.config_sections import (
    Audit,
    Auth,
    ChatModel,
    Checkpoint,
    Consolidate,
    Data,
    Database,
    Embedding,
    Encryption,
    Episode,
    Erasure,
    Extract,
    Identity,
    Injection,
    Ledger,
    Limits,
    Listen,
    Log,
    Personal,
    Preferences,
    Procedure,
    Queue,
    Recall,
    Redis,
    Replay,
    Retention,
    Session,
    Summary,
    Telemetry,
    Tokenizer,
    Upstream,
    Worker,
)
from memory.config_text import expectation, members, rendered_key, section_type, shown
from memory.config_values import Section
from memory.errors import ConfigInvalid
from memory.home import home_dir

ENV_PREFIX = "MEMORY_PROXY_"
# Variables with this prefix that are no settings: a client's key, the master key, and what the supervisor tells its
# children (resolved settings, listening socket, ready pipe, slot number).
ENV_OF_PEOPLE = (f"{ENV_PREFIX}KEY", f"{ENV_PREFIX}MASTER_KEY")
ENV_NOT_SETTINGS = frozenset(
    (*ENV_OF_PEOPLE, *(f"{ENV_PREFIX}{name}" for name in ("SETTINGS", "LISTEN_FD", "READY_FD", "SLOT", "REPLACES")))
)
# What Kubernetes sets in every pod for a Service called memory-proxy, or memory-proxy-something.
_SERVICE_LINK = re.compile(
    rf"{ENV_PREFIX}(?:\w+_)?(?:SERVICE_HOST=.*|SERVICE_PORT(?:_\w+)?=.*|PORT=\w+://.*|PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?=.*)",
    re.DOTALL,
)
ROOT_DATA_DIR = Path("/var/lib/memory-proxy")


class Settings(Section):
    """All settings. `load_settings` makes one; `Settings()` is the defaults."""

    listen: Listen = Listen()
    upstream: Upstream = Upstream()
    auth: Auth = Auth()
    identity: Identity = Identity()
    database: Database = Database()
    redis: Redis = Redis()
    queue: Queue = Queue()
    recall: Recall = Recall()
    ledger: Ledger = Ledger()
    session: Session = Session()
    checkpoint: Checkpoint = Checkpoint()
    preferences: Preferences = Preferences()
    overflow: Literal["error", "summarise"] = Field(
        default="error",
        description="A conversation that does not fit even without memory. error: vLLM's own error goes to the client. "
        "summarise: its oldest turns give way to the rolling summary. A key may say otherwise.",
    )
    summary: Summary = Summary()
    episode: Episode = Episode()
    procedure: Procedure = Procedure()
    embedding: Embedding = Embedding()
    tokenizer: Tokenizer = Tokenizer()
    personal: Personal = Personal()
    replay: Replay = Replay()
    retention: Retention = Retention()
    audit: Audit = Audit()
    consolidate: Consolidate = Consolidate()
    worker: Worker = Worker()
    chat_model: ChatModel = ChatModel()
    extract: Extract = Extract()
    limits: Limits = Limits()
    encryption: Encryption = Encryption()
    erasure: Erasure = Erasure()
    injection: Injection = Injection()
    documents: Documents = Documents()
    artifacts: Artifacts = Artifacts()
    outside: Outside = Outside()
    data: Data = Data()
    log: Log = Log()
    telemetry: Telemetry = Telemetry()


@dataclass(frozen=True, slots=True)
class Given:
    """A value somebody gave, and where."""

    value: object
    where: str


def load_settings(path: Path | None, overrides: Mapping[str, object], environ: Mapping[str, str]) -> Settings:
    """Settings from a YAML file (None: no file), `overrides` by dotted key (None values are skipped) and variables.

    Raises ConfigInvalid with one line for each fault.
    """
    given, problems = _from_file(path)
    for more in (_from_environ(environ), _from_overrides(overrides)):
        given.update(more[0])
        problems.extend(more[1])
    settings = Settings()
    nested: dict[str, object] = {}
    for key, item in given.items():
        section, _, name = key.partition(".")
        if name:
            typing.cast(dict[str, object], nested.setdefault(section, {}))[name] = item.value
        else:
            nested[section] = item.value
    try:
        settings = Settings.model_validate(nested)
    except ValidationError as error:
        problems.extend(_value_problem(detail["loc"], detail.get("ctx", {}), given) for detail in error.errors())
    problems.extend(_cross_problems(settings, given))
    if problems:
        raise ConfigInvalid("\n".join(str(problem) for problem in sorted(problems, key=_place)))
    return settings


def _place(problem: Problem) -> tuple[str, int]:
    file, _, line = problem.where.rpartition(":")
    return (file, int(line)) if line.isdigit() else (problem.where, 0)


def fields_of() -> dict[str, FieldInfo]:
    """Every setting by dotted key, in the order of the file."""
    found: dict[str, FieldInfo] = {}
    for name, field in Settings.model_fields.items():
        section = section_type(field)
        if section is None:
            found[name] = field
        else:
            found.update({f"{name}.{key}": inner for key, inner in section.model_fields.items()})
    return found


def digest(settings: Settings) -> str:
    """sha256 (hex) of what decides an answer's memory, secrets and addresses excluded; kept with each retrieval."""
    relevant = settings.model_dump(
        mode="json",
        include={
            "recall": True,
            "ledger": True,
            "session": True,
            "checkpoint": True,
            "preferences": True,
            "overflow": True,
            "summary": True,
            "embedding": {"model", "dim"},
            "personal": True,
            "upstream": {"sensitivity_max"},
        },
    )
    relevant["counts_exactly"] = settings.tokenizer.directory is not None
    return hashlib.sha256(json.dumps(relevant, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def effective_cache_salt(settings: Settings) -> Literal["tenant", "off"]:
    """`upstream.cache_salt` with its default resolved: tenant in `keys` mode, off in `open`."""
    if settings.upstream.cache_salt is not None:
        return settings.upstream.cache_salt
    return "tenant" if settings.auth.mode == "keys" else "off"


def asks_upstream(settings: Settings) -> bool:
    """Whether facts are asked of the vLLM that serves, by whichever way."""
    by, url = settings.extract.by, settings.upstream.url
    return by == "vllm" or (by == "model" and settings.chat_model.api_base in (None, url, f"{url}/v1"))


def effective_data_dir(settings: Settings, *, is_root: bool, home: Path) -> Path:
    """The data directory, absolute. Root's default is not below its home, which Postgres' account cannot enter."""
    default = ROOT_DATA_DIR if is_root else home / ".local" / "share" / "memory-proxy"
    return (settings.data.dir or default).absolute()


def data_dir_of(settings: Settings) -> Path:
    """The data directory of these settings for the account of this process."""
    return effective_data_dir(settings, is_root=os.geteuid() == 0, home=home_dir())


def effective_journal(settings: Settings, data_dir: Path) -> Path:
    """The file of what was erased; by default beside the database, in the data directory."""
    return settings.erasure.journal or data_dir / "erasures.ndjson"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address; a name other than localhost counts as reachable."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def write_private(settings: Settings, path: Path) -> None:
    """Write all settings, secrets included, for the children: mode 0600, replaced atomically. Raises OSError."""
    text = json.dumps(_expose(settings.model_dump()))
    scratch = path.with_suffix(".tmp")
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    scratch.replace(path)


def settings_from_environ(environ: Mapping[str, str]) -> Settings:
    """What the supervisor resolved, in a child of it. Raises ConfigInvalid without MEMORY_PROXY_SETTINGS."""
    name = environ.get(f"{ENV_PREFIX}SETTINGS")
    if name is None:
        raise ConfigInvalid(f"{ENV_PREFIX}SETTINGS is not set: this process is started by `memory-proxy serve`")
    try:
        return Settings.model_validate(json.loads(Path(name).read_bytes()))
    except (OSError, ValueError) as error:
        raise ConfigInvalid(f"{name}: written by another version, or not readable ({type(error).__name__})") from error


def render_config(settings: Settings) -> str:
    """The commented YAML that `memory-proxy init` writes. Secrets are left out: they belong in the environment."""
    lines = [
        "# memory-proxy: every setting with its default. Delete what you do not change.",
        "# Each can be given in the environment too: MEMORY_PROXY_<SECTION>__<KEY>. Secrets belong there.",
    ]
    for name, field in Settings.model_fields.items():
        value = getattr(settings, name)
        lines.append("")
        if not isinstance(value, Section):
            lines.extend(rendered_key(name, field, value, ""))
            continue
        lines.append(f"# {(type(value).__doc__ or '').splitlines()[0]}")
        lines.append(f"{name}:")
        for key, inner in type(value).model_fields.items():
            lines.extend(rendered_key(key, inner, getattr(value, key), "  "))
    return "\n".join(lines) + "\n"


def _section_names() -> list[str]:
    return [name for name, field in Settings.model_fields.items() if section_type(field) is not None]


def _from_file(path: Path | None) -> tuple[dict[str, Given], list[Problem]]:
    if path is None:
        return {}, []
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        return {}, [Problem(str(path), "", f"cannot be read: {error.strerror}")]
    except UnicodeDecodeError as error:
        return {}, [Problem(str(path), "", f"not UTF-8 at byte {error.start}")]
    if len(raw) > FILE_BYTES_MAX:
        return {}, [Problem(str(path), "", f"longer than {FILE_BYTES_MAX} bytes")]
    parsed = parse_config(text, str(path))
    given: dict[str, Given] = {}
    problems = list(parsed.problems)
    sections = _section_names()
    faulty = {problem.key for problem in parsed.problems}
    known = fields_of()
    for key, line in parsed.lines.items():
        where = f"{path}:{line}"
        section = key.partition(".")[0]
        if key in known and (key in parsed.values or key not in faulty):
            given[key] = Given(parsed.values.get(key, {}), where)
        elif key in sections:
            if parsed.values.get(key) is not None:
                problems.append(Problem(where, key, "expected a section (key: value lines below it), found a value"))
        elif key not in known and (section == key or section in sections):
            problems.append(_unknown(where, key, [*known, *sections]))
    return given, problems


def _from_environ(environ: Mapping[str, str]) -> tuple[dict[str, Given], list[Problem]]:
    """MEMORY_PROXY_SECTION__KEY always, MEMORY_PROXY_SECTION_KEY where only one setting can be meant."""
    known = fields_of()
    exact = {f"{ENV_PREFIX}{key.upper().replace('.', '__')}": key for key in known}
    short: dict[str, list[str]] = {}
    for key in known:
        short.setdefault(f"{ENV_PREFIX}{key.upper().replace('.', '_')}", []).append(key)
    given: dict[str, Given] = {}
    problems: list[Problem] = []
    for name in sorted(environ):
        if not name.startswith(ENV_PREFIX) or name in ENV_NOT_SETTINGS or _is_service_link(name, environ):
            continue
        keys = [exact[name]] if name in exact else short.get(name, [])
        if len(keys) != 1:
            problems.append(_unknown_variable(name, keys, [*exact, *short, *ENV_OF_PEOPLE]))
        elif keys[0] in given and given[keys[0]].value != _typed(known[keys[0]], environ[name]):
            problems.append(Problem(f"environment {name}", keys[0], f"differs from {given[keys[0]].where}"))
        else:
            given[keys[0]] = Given(_typed(known[keys[0]], environ[name]), f"environment {name}")
    return given, problems


def _is_service_link(name: str, environ: Mapping[str, str]) -> bool:
    return "KUBERNETES_SERVICE_HOST" in environ and bool(_SERVICE_LINK.fullmatch(f"{name}={environ[name]}"))


def _from_overrides(overrides: Mapping[str, object]) -> tuple[dict[str, Given], list[Problem]]:
    known = fields_of()
    given: dict[str, Given] = {}
    problems: list[Problem] = []
    for key, value in overrides.items():
        if key not in known:
            problems.append(_unknown("command line", key, list(known)))
        elif value is not None:
            given[key] = Given(_typed(known[key], value) if isinstance(value, str) and value else value, "command line")
    return given, problems


def _typed(field: FieldInfo, text: str) -> object:
    """A variable's text as the field's type has it: text fields take it as it is, others read it as YAML."""
    if text in ("", "null"):
        return None if type(None) in members(field.annotation) else text
    kinds = [getattr(member, "__origin__", member) for member in members(field.annotation)]
    return text if any(kind in (str, SecretStr, Path) for kind in kinds) else parse_scalar(text)


def _unknown(where: str, key: str, known: list[str]) -> Problem:
    near = get_close_matches(key, known, n=1, cutoff=0.5)
    name = key.rpartition(".")[2]
    elsewhere = [candidate for candidate in known if candidate.rpartition(".")[2] == name]
    hint = (elsewhere or near)[:1]
    return Problem(where, key, f"unknown; did you mean {hint[0]}?" if hint else "unknown")


def _unknown_variable(name: str, keys: list[str], known: list[str]) -> Problem:
    if keys:
        return Problem(f"environment {name}", "", f"may mean {' or '.join(keys)}; write SECTION__KEY")
    suffixes = [candidate.removeprefix(ENV_PREFIX) for candidate in known]
    near = get_close_matches(name.removeprefix(ENV_PREFIX), suffixes, n=1, cutoff=0.5)
    return Problem(f"environment {name}", "", f"unknown; did you mean {ENV_PREFIX}{near[0]}?" if near else "unknown")


def _value_problem(loc: tuple[int | str, ...], context: Mapping[str, object], given: Mapping[str, Given]) -> Problem:
    """One of pydantic's complaints in this file's words; the value is shown unless it is a secret."""
    known = fields_of()
    key = next(
        key for key in (".".join(map(str, loc[:2])), str(loc[0])) if key in known
    )  # longer locations point into a list
    field = known[key]
    item = given[key]
    cause = context.get("error")
    expected = str(cause) if isinstance(cause, ValueError) else expectation(field)
    return Problem(item.where, key, f"expected {expected}, found {shown(field, item.value)}")


def _cross_problems(settings: Settings, given: Mapping[str, Given]) -> Iterator[Problem]:
    """Faults between settings."""

    def where(*keys: str) -> str:
        return next((given[key].where for key in keys if key in given), "default")

    listen = settings.listen
    if settings.auth.mode == "open" and not is_loopback(listen.host) and not listen.open_on_network:
        yield Problem(
            where("listen.host"),
            "listen.host",
            f"{listen.host} can be reached from the network and auth.mode is open: expected auth.mode keys, a loopback "
            "address, or listen.open_on_network true (then everybody who reaches the port is trusted)",
        )
    if settings.database.owner_url is not None and settings.database.url is None:
        yield Problem(where("database.owner_url"), "database.owner_url", "expected database.url as well")
    if settings.redis.cache_url is not None and settings.redis.url is None:
        yield Problem(where("redis.cache_url"), "redis.cache_url", "expected redis.url as well")
    if settings.extract.by == "model" and settings.chat_model.model is None:
        yield Problem(where("extract.by"), "extract.by", "expected chat_model.model as well, for extract.by model")
    yield from _bucket_problems(settings, where)
    if settings.outside.enabled and settings.outside.search_url is None:
        yield Problem(
            where("outside.enabled"),
            "outside.enabled",
            "expected outside.search_url as well, the address of a SearXNG-compatible service",
        )


def _bucket_problems(settings: Settings, where: Callable[..., str]) -> Iterator[Problem]:
    """Faults between the settings of a bucket for files."""
    given = settings.artifacts
    if given.s3_url is not None and given.s3_bucket is None:
        yield Problem(where("artifacts.s3_url"), "artifacts.s3_url", "expected artifacts.s3_bucket as well")
    if given.s3_bucket is not None and (given.s3_access_key is None) != (given.s3_secret_key is None):
        key, other = "artifacts.s3_access_key", "artifacts.s3_secret_key"
        key, other = (other, key) if given.s3_access_key is None else (key, other)
        yield Problem(where(key), key, f"expected {other} as well, or neither")


def _expose(value: object) -> object:
    """Secrets and paths as plain text, for the private file only."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {key: _expose(inner) for key, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value
