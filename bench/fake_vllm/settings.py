"""What the stand-in can be told: command line, control JSON or x-fake-* headers -> frozen values.

Every member of `Fault` is at once a command-line option (`--first-ms`), a member of the JSON of
`POST /__control` (`first_ms`) and a request header (`x-fake-first-ms`). A name that is not one of
them is refused, so that a test with a typing error fails instead of passing for the wrong reason.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

HEADER_PREFIX = b"x-fake-"


class UnknownSetting(ValueError):
    """A setting that does not exist, or a value that it cannot take."""


def _flag(text: str) -> bool:
    lowered = text.lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("0", "false", "no", "off", ""):
        return False
    raise ValueError(text)


def _says(parse: Callable[[str], object], help_text: str) -> dict[str, object]:
    return {"parse": parse, "help": help_text}


@dataclass(frozen=True, slots=True)
class Fault:
    """Pace and faults of one answer. The default is healthy and instant. An event is one SSE event."""

    tokens: int | None = field(
        default=None, metadata=_says(int, "answer with so many filler tokens (a `say:` line still wins)")
    )
    first_ms: float = field(default=0.0, metadata=_says(float, "milliseconds before the first token"))
    token_ms: float = field(default=0.0, metadata=_says(float, "milliseconds between tokens"))
    burst: int = field(default=16, metadata=_says(int, "events per socket write where token_ms is 0"))
    status: int | None = field(default=None, metadata=_says(int, "answer with this HTTP status and vLLM's error body"))
    retry_after: str | None = field(default=None, metadata=_says(str, "Retry-After header beside status"))
    die: bool = field(default=False, metadata=_says(_flag, "close the socket before the first byte of the answer"))
    die_after: int | None = field(
        default=None, metadata=_says(int, "close the socket after so many events (half the body when not streaming)")
    )
    error_after: int | None = field(
        default=None, metadata=_says(int, "after so many events send an error event, then [DONE]")
    )
    keep_alive: int = field(default=0, metadata=_says(int, "a `: keep-alive` comment before every so many events"))
    split: int = field(default=0, metadata=_says(int, "cut the answer into socket writes of so many bytes"))
    gzip: bool = field(default=False, metadata=_says(_flag, "compress the answer, Content-Encoding: gzip"))
    reasoning: int = field(default=0, metadata=_says(int, "so many reasoning tokens before the answer"))
    reply: str | None = field(default=None, metadata=_says(str, "answer with this text, whatever was asked"))
    endless: bool = field(default=False, metadata=_says(_flag, "a whole answer that never ends (not when streaming)"))
    tool_calls: int = field(default=0, metadata=_says(int, "answer with so many tool calls"))

    def merged(self, overrides: Mapping[str, str | None]) -> "Fault":
        """These settings with some replaced; None restores a default. Raises UnknownSetting."""
        values: dict[str, object] = {}
        for name, text in overrides.items():
            spec = _SPECS.get(name)
            if spec is None:
                raise UnknownSetting(f"no such setting: {name}; there are {', '.join(_SPECS)}")
            parse, default = spec
            try:
                values[name] = default if text is None else parse(text)
            except ValueError as exc:
                raise UnknownSetting(f"{name} cannot be {text!r}") from exc
        return replace(self, **values)  # type: ignore[arg-type]

    def from_headers(self, raw_headers: Iterable[tuple[bytes, bytes]]) -> "Fault":
        """These settings with the x-fake-* headers of one request applied. Raises UnknownSetting."""
        overrides: dict[str, str | None] = {
            name[len(HEADER_PREFIX) :].decode("latin-1").lower().replace("-", "_"): value.decode("latin-1").strip()
            for name, value in raw_headers
            if name[: len(HEADER_PREFIX)].lower() == HEADER_PREFIX
        }
        return self.merged(overrides) if overrides else self


_SPECS: dict[str, tuple[Callable[[str], object], object]] = {
    f.name: (f.metadata["parse"], f.default) for f in fields(Fault)
}


@dataclass(frozen=True, slots=True)
class Settings:
    """One server. `model_names`: the first is the served name, all are accepted.

    `scheduling_policy`: fcfs refuses a `priority` other than 0 (vLLM 0.32 takes it and does not heed it). Where the
    template writes `enable_thinking: false` says `thinking_template`: none, tail (an empty thought, as Qwen3) or head
    (as SmolLM3).
    """

    model_names: tuple[str, ...] = ("fake-model",)
    max_model_len: int = 8192
    block_size: int = 16
    cache_blocks_max: int = 65_536
    api_key: str | None = None
    record_max: int = 64
    embedding_dims: int = 8
    scheduling_policy: str = "fcfs"
    thinking_template: str = "none"
    fault: Fault = field(default_factory=Fault)


def settings_from_keywords(**given: object) -> Settings:
    """Settings and Fault members side by side, as tests write them: (max_model_len=512, first_ms=5)."""
    own = {f.name for f in fields(Settings)}
    fault = {name: None if value is None else str(value) for name, value in given.items() if name not in own}
    server = {name: value for name, value in given.items() if name in own}
    base = Settings(**server)  # type: ignore[arg-type]
    return replace(base, fault=base.fault.merged(fault))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of Settings and Fault on a parser."""
    default = Settings()
    parser.add_argument("--model", action="append", help="served model name, may be repeated (default: fake-model)")
    parser.add_argument("--max-model-len", type=int, default=default.max_model_len, help="context window in tokens")
    parser.add_argument("--block-size", type=int, default=default.block_size, help="prefix-cache block in tokens")
    parser.add_argument("--api-key", help="bearer token demanded on /v1, /v2, /inference and /cohere")
    parser.add_argument("--scheduling-policy", choices=("fcfs", "priority"), default=default.scheduling_policy)
    parser.add_argument("--thinking-template", choices=("none", "tail", "head"), default=default.thinking_template)
    parser.add_argument(
        "--record-max", type=int, default=default.record_max, help="generation requests kept by /__last"
    )
    group = parser.add_argument_group(
        "pace and faults", "defaults; a request overrides them with x-fake-NAME headers, POST /__control at run time"
    )
    for item in fields(Fault):
        group.add_argument(f"--{item.name.replace('_', '-')}", dest=f"fault_{item.name}", help=item.metadata["help"])


def settings_from_arguments(arguments: argparse.Namespace) -> Settings:
    """Read back what add_arguments declared. Raises UnknownSetting on a value that does not parse."""
    overrides: dict[str, str | None] = {
        name: text for name in _SPECS if (text := getattr(arguments, f"fault_{name}")) is not None
    }
    return Settings(
        model_names=tuple(arguments.model or ("fake-model",)),
        max_model_len=arguments.max_model_len,
        block_size=arguments.block_size,
        api_key=arguments.api_key,
        record_max=arguments.record_max,
        scheduling_policy=arguments.scheduling_policy,
        thinking_template=arguments.thinking_template,
        fault=Fault().merged(overrides),
    )
