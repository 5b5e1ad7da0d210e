"""The limits of a key: a stored object in, a value out, and which of two is the narrower. Pure.

Refuses (LimitsInvalid) a member it does not know or a value that is none: a limit that is not understood must not
become no limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

# A conversation that does not fit: vLLM's error for its client, or its oldest turns give way to their summary.
Overflow = Literal["error", "summarise"]
COUNT_MAX: Final = 1_000_000_000_000
MODELS_MAX: Final = 64
MODEL_CHARS_MAX: Final = 256
_COUNTS: Final = ("requests_per_minute", "tokens_per_day", "injected_tokens_max")


class LimitsInvalid(ValueError):
    """Names the member and what was expected."""


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """None: no limit. `injected_tokens_max` caps the memory newly placed in one prompt; `models` are exact names;
    `overflow` None: as the configuration says.
    """

    requests_per_minute: int | None = None
    tokens_per_day: int | None = None
    injected_tokens_max: int | None = None
    models: frozenset[str] | None = None
    overflow: Overflow | None = None

    @property
    def counted(self) -> bool:
        """Whether its use must be counted at all."""
        return self.requests_per_minute is not None or self.tokens_per_day is not None

    def stored(self) -> dict[str, Any]:
        """As the key table has it: without what is not limited."""
        found: dict[str, Any] = {name: getattr(self, name) for name in _COUNTS if getattr(self, name) is not None}
        if self.models is not None:
            found["models"] = sorted(self.models)
        if self.overflow is not None:
            found["overflow"] = self.overflow
        return found


NO_LIMITS: Final = KeyLimits()


def limits_of(stored: Mapping[str, Any]) -> KeyLimits:
    """The limits as stored. Raises LimitsInvalid."""
    counts: dict[str, int] = {}
    models: frozenset[str] | None = None
    overflow: Overflow | None = None
    for name, value in stored.items():
        if name in _COUNTS:
            least = 0 if name == "injected_tokens_max" else 1
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= COUNT_MAX:
                raise LimitsInvalid(f"{name} must be a whole number from {least} on, not {value!r}")
            counts[name] = value
        elif name == "models":
            models = _models(value)
        elif name == "overflow":
            overflow = _overflow(value)
        else:
            raise LimitsInvalid(f"{name} is not a limit; known: {', '.join((*_COUNTS, 'models', 'overflow'))}")
    return KeyLimits(**counts, models=models, overflow=overflow)


def narrower(one: int | None, other: int | None) -> int | None:
    """The smaller of two limits."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _overflow(value: Any) -> Overflow:
    for known in get_args(Overflow):
        if value == known:
            return known  # type: ignore[no-any-return]
    raise LimitsInvalid(f"overflow must be one of {', '.join(get_args(Overflow))}, not {value!r}")


def _models(value: Any) -> frozenset[str]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= MODELS_MAX:
        raise LimitsInvalid(f"models must list 1 to {MODELS_MAX} names")
    for name in value:
        if not isinstance(name, str) or not 1 <= len(name) <= MODEL_CHARS_MAX:
            raise LimitsInvalid(f"models must list names of 1 to {MODEL_CHARS_MAX} characters")
    return frozenset(value)
