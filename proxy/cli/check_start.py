"""Checks of what a start refuses once its stores are up: the embedded cluster, the master key, the journal of erasures.

In: the settings and where the data directory is. Out: findings, in the words that a start would say. Makes nothing: a
master key that is not there yet is made by the first start.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from memory.config import Settings, effective_journal
from memory.erasure import journal
from memory.errors import StartFailed
from memory.master import ENVIRONMENT, is_there, master_key
from proxy.cli.check_machine import lock_holder
from proxy.cli.checks import Finding, Findings
from proxy.supervisor.embedded_postgres import cluster_version, require_version


def cluster(root: Path, settings: Settings) -> Findings:
    """Whether the embedded server can read the cluster that lies in the data directory."""
    what = "embedded cluster"
    if settings.database.url is not None or (version := cluster_version(root / "pg")) is None:
        return []
    try:
        require_version(root / "pg")
    except StartFailed as fault:
        return [Finding("FAIL", what, str(fault))]
    return [Finding("ok", what, f"of Postgres {version}")]


def master(root: Path, settings: Settings, environ: Mapping[str, str]) -> Findings:
    """Whether there is a master key that a start would take; which it is, its store alone knows."""
    what, given = "master key", settings.encryption
    path = given.master_key_file or root / "master.key"
    try:
        if ENVIRONMENT not in environ and not is_there(path):
            return [_none_yet(what, path, root)]
        master_key(path, given.previous_master_key_file, environ)
    except StartFailed as fault:
        return [Finding("FAIL", what, str(fault))]
    return [Finding("ok", what, f"of {ENVIRONMENT}" if ENVIRONMENT in environ else f"{path}, closed to others")]


def _none_yet(what: str, path: Path, root: Path) -> Finding:
    if lock_holder(root) is not None:
        return Finding(
            "ok", what, f"no {path}: the running service makes it as it starts, or has it from its environment"
        )
    if cluster_version(root / "pg") is not None:
        mend = f"restore it from the backup, or set {ENVIRONMENT}: what lies sealed there opens with no other"
        return Finding("FAIL", what, f"no {path}, and {root} holds a store", mend)
    if path.parent != root and not path.parent.is_dir():
        return Finding("FAIL", what, f"{path.parent} is no directory", "make it, or name another master_key_file")
    return Finding("ok", what, f"the first start makes {path}; it belongs in the backup")


def erasures(root: Path, settings: Settings) -> Findings:
    """Whether what was erased can be read: no older copy of the database is served without."""
    what, path = "erasure journal", effective_journal(settings, root)
    try:
        found = any(journal.names(path))
    except OSError as fault:
        mend = "erasure.journal names a file, which the account that runs memory-proxy may read and write"
        return [Finding("FAIL", what, f"{path} cannot be read: {fault.strerror}", mend)]
    return [Finding("ok", what, f"{path}{'' if found else ': nothing was erased yet'}")]
