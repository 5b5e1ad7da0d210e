"""What a scenario found: findings in, one line each for people, JSON for programs, and whether all was kept. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


class Skipped(Exception):
    """A scenario that cannot be run here; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One promise: what was asked, what was found, whether it was kept."""

    promise: str
    asked: str
    found: str
    kept: bool


@dataclass(frozen=True, slots=True)
class Told:
    """One scenario: what it did, what it found. `skipped`: why it was not run; `broken`: why it could not end."""

    name: str
    did: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0
    skipped: str | None = None
    broken: str | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kept(self) -> bool:
        """Whether nothing was broken; a scenario that was skipped breaks nothing."""
        return self.broken is None and all(finding.kept for finding in self.findings)

    @property
    def verdict(self) -> str:
        """One word."""
        if self.skipped is not None:
            return "skipped"
        return "kept" if self.kept else "BROKEN"


def none(promise: str, found: int, what: object = "") -> Finding:
    """Nothing of the kind may have happened."""
    return Finding(promise, "0", f"{found} {what}".rstrip() if found else "0", found == 0)


def at_most(promise: str, found: float, bound: float, unit: str) -> Finding:
    """A figure with an upper bound."""
    return Finding(promise, f"<= {bound:g} {unit}", f"{found:.2f} {unit}", found <= bound)


def at_least(promise: str, found: float, bound: float, unit: str = "") -> Finding:
    """A figure with a lower bound."""
    return Finding(promise, f">= {bound:g} {unit}".rstrip(), f"{found:g} {unit}".rstrip(), found >= bound)


def so(promise: str, kept: bool, found: object = "") -> Finding:
    """Something that is so or is not."""
    return Finding(promise, "yes", str(found) or ("yes" if kept else "no"), kept)


def told(one: Told) -> str:
    """A scenario for people: the verdict, then each finding."""
    why = one.skipped or one.broken
    lines = [f"{one.name}: {one.verdict}{f' ({why})' if why else ''}, {one.seconds:.0f} s"]
    for finding in one.findings:
        mark = "  " if finding.kept else "!!"
        lines.append(f"  {mark} {finding.promise}: {finding.found} (asked: {finding.asked})")
    return "\n".join(lines)


def table(all_told: Sequence[Told]) -> str:
    """All scenarios, a line each."""
    lines = [f"{'scenario':<16}{'verdict':<10}{'seconds':>8}{'findings':>10}  what broke, or why it was skipped"]
    for one in all_told:
        broke = "; ".join(f"{f.promise}: {f.found}" for f in one.findings if not f.kept)
        reason = (one.skipped or one.broken or broke).splitlines()
        lines.append(
            f"{one.name:<16}{one.verdict:<10}{one.seconds:>8.0f}{len(one.findings):>10}  {reason[0] if reason else ''}"
        )
    return "\n".join(lines)


def as_json(all_told: Sequence[Told], setting: Mapping[str, Any]) -> dict[str, Any]:
    """Everything, with the setting it was found in."""
    scenarios = [{**asdict(one), "verdict": one.verdict} for one in all_told]
    return {"setting": dict(setting), "kept": all(one.kept for one in all_told), "scenarios": scenarios}
