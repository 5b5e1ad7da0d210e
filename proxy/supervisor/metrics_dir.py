"""The directory in which all processes share their metrics: emptied at the start, files of dead processes reaped.

Gauges of a dead process go at once. Its counters and histograms must stay in the sums (a counter that falls looks to
Prometheus like a restart, and the whole sum would be counted again), so they are folded into one archive file a kind,
once `DEAD_MAX` processes have left theirs and nobody reads them.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.mmap_dict import MmapedDict

from memory.metric_files import fill, folding

DEAD_MAX = 8
ARCHIVE = "folded"
SUMMED = ("counter", "histogram", "summary")


@dataclass(slots=True)
class MetricsDir:
    """PROMETHEUS_MULTIPROC_DIR of this run."""

    path: Path
    _dead: list[int] = field(default_factory=list)

    def clear(self) -> None:
        """Begin a run: nothing of the last one stays. Raises OSError."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(mode=0o700)

    def reap(self, pid: int) -> None:
        """Take note that a process has ended."""
        with suppress(OSError):  # a read-only disk: they go once it can be written
            for file in self.path.glob(f"*_{pid}.db"):
                # Empty is the one of a process that was killed before it had taken its room: nobody can read it.
                if file.name.startswith("gauge_") or not file.stat().st_size:
                    file.unlink(missing_ok=True)
        if pid not in self._dead and any(self.path.glob(f"*_{pid}.db")):
            self._dead.append(pid)
        if len(self._dead) > DEAD_MAX:
            with suppress(OSError, RuntimeError), folding(self.path) as alone:  # a full disk, a torn file: they stay
                if alone:
                    self._fold()

    def tidy(self) -> None:
        """Take note of processes that ended and were none of ours (a command beside the service counts here too), and
        once more of those whose files could not be folded or removed.
        """
        endings = {file.stem.rpartition("_")[2] for file in self.path.glob("*.db")}
        pids = {int(ending) for ending in endings if ending.isdigit()}
        for pid in pids:
            if not _is_alive(pid):
                self.reap(pid)

    def _fold(self) -> None:
        dead = [pid for pid in self._dead if not _is_alive(pid)]  # numbers come round again
        for kind in SUMMED:
            files = [file for pid in dead if (file := self.path / f"{kind}_{pid}.db").exists()]
            if not files:
                continue
            archive = self.path / f"{kind}_{ARCHIVE}.db"
            scratch = self.path / f"{kind}_{ARCHIVE}.tmp"
            scratch.unlink(missing_ok=True)
            fill(scratch)
            _write_sum(scratch, [archive, *files] if archive.exists() else files)
            scratch.replace(archive)
            for file in files:
                file.unlink()
        self._dead.clear()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _write_sum(target: Path, sources: list[Path]) -> None:
    sums: dict[str, float] = {}
    for source in sources:
        for key, value, _, _ in MmapedDict.read_all_values_from_file(str(source)):  # type: ignore[no-untyped-call]
            sums[key] = sums.get(key, 0.0) + value
    written = MmapedDict(str(target))  # type: ignore[no-untyped-call]
    for key, value in sums.items():
        written.write_value(key, value, 0.0)  # type: ignore[no-untyped-call]
    written.close()  # type: ignore[no-untyped-call]
