"""Files of metrics have their blocks before they are mapped, so that a full disk ends no process."""

import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.mmap_dict import MmapedDict

from memory.metric_files import _KINDS, FILE_BYTES, fill, take_room
from memory.telemetry import Metrics, merged_exposition

# Every metric of a process, each label written: what a worker that has shown everything has on disk.
WRITTEN = """
from memory.telemetry import Metrics
metrics = Metrics()
for one in {*metrics.registry._collector_to_names}:
    shown = one.labels(*(["label"] * len(one._labelnames))) if one._labelnames else one
    write = getattr(shown, "set", None) or getattr(shown, "inc", None) or shown.observe
    write(1.0)
print(metrics.exposition().decode().count("memory_proxy_"))
"""


def run(directory: Path, file_bytes_max: int = resource.RLIM_INFINITY) -> subprocess.CompletedProcess[str]:
    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))

    return subprocess.run(
        [sys.executable, "-c", WRITTEN],
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(directory)},
        preexec_fn=bound,  # this process has one thread that matters
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_file_that_a_process_maps_was_written_before(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    files = list(tmp_path.iterdir())
    assert {file.name.rpartition("_")[0] for file in files} == set(_KINDS)
    for file in files:
        assert file.stat().st_size == FILE_BYTES
        assert file.stat().st_blocks * 512 == pytest.approx(FILE_BYTES, abs=65_536)


def test_the_files_of_a_process_with_a_narrow_umask_are_read_by_the_others(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        fill(tmp_path / "counter_1.db")
    finally:
        os.umask(before)
    assert (tmp_path / "counter_1.db").stat().st_mode & 0o777 == 0o644


def test_every_gauge_has_a_file_of_its_kind() -> None:
    modes = {one._multiprocess_mode for one in Metrics().registry._collector_to_names if isinstance(one, Gauge)}
    assert {f"gauge_{mode}" for mode in modes} <= set(_KINDS)


def test_a_process_that_finds_no_room_counts_for_itself_and_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, file_bytes_max=FILE_BYTES // 2)
    assert done.returncode == 0, done.stderr
    assert "metrics_not_shared" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_keeps_what_it_says(tmp_path: Path) -> None:
    fill(tmp_path / "sums.db")
    written = MmapedDict(str(tmp_path / "sums.db"))  # type: ignore[no-untyped-call]
    written.write_value("requests", 3.0, 0.0)  # type: ignore[no-untyped-call]
    written.close()  # type: ignore[no-untyped-call]
    fill(tmp_path / "sums.db")
    read = MmapedDict.read_all_values_from_file(str(tmp_path / "sums.db"))  # type: ignore[no-untyped-call]
    assert [(key, value) for key, value, _, _ in read] == [("requests", 3.0)]


def test_no_room_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def one_then_full(path: Path) -> None:
        if made:
            raise OSError("full")
        made.append(path)
        fill(path)

    monkeypatch.setattr("memory.metric_files.fill", one_then_full)
    with pytest.raises(OSError, match="full"):
        take_room(tmp_path)
    assert made
    assert list(tmp_path.iterdir()) == []


def test_a_registry_without_a_directory_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    assert Metrics(CollectorRegistry()).exposition()


def test_a_scrape_beside_processes_that_begin_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    begins = (
        "import sys; from pathlib import Path; from memory.metric_files import fill\n"
        "for pid in range(1_000):\n"
        "    fill(file := Path(sys.argv[1]) / f'counter_{pid}.db'); file.unlink()"
    )
    with subprocess.Popen([sys.executable, "-c", begins, str(tmp_path)]) as beginning:
        while beginning.poll() is None:
            with suppress(FileNotFoundError):  # it is gone again, which no file of a living process is
                merged_exposition()
    assert beginning.returncode == 0
