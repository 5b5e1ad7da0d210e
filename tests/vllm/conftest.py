"""A real vLLM for these tests alone, and the service before it: `make test-vllm`; `make test` passes them over.

The start script stands beside the project (`../shared/tools/vllm/start_vllm.sh`); it installs vLLM once (3.5 GB) and
starts it in one or two minutes. VLLM_URL names one that runs already. Without either, every test here is skipped.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.overhead.processes import free_port
from tests.service_fixture import Service, serving
from tests.vllm.model_server import ModelServer

SCRIPT = Path(__file__).resolve().parents[3] / "shared" / "tools" / "vllm" / "start_vllm.sh"
INSTALLED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memory-proxy-vllm"
INSTALL_S = 1_200
# Tokens. A full window is prefilled three times here, at some hundred tokens a second.
WINDOW = "4096"
STOP_S = 60
# On a machine that vLLM keeps busy; how fast recall is, is measured elsewhere.
PATIENT = {"MEMORY_PROXY_RECALL__DEADLINE_MS": "5000", "MEMORY_PROXY_LEDGER__DEADLINE_MS": "2500"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only asked for by name: a run without `-m vllm` starts no vLLM."""
    if "vllm" in (config.option.markexpr or ""):
        return
    passed_over = pytest.mark.skip(reason="needs the real vLLM; make test-vllm")
    for item in items:
        if item.get_closest_marker("vllm"):
            item.add_marker(passed_over)


def _ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _stop(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + STOP_S
    while not _ended(pid):
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.2)


def _started(root: Path) -> tuple[str, int]:
    """Install where needed, start on a free port with a root of our own; its URL and pid."""
    subprocess.run(["bash", str(SCRIPT), "--install-only"], check=True, timeout=INSTALL_S)
    (root / "models").symlink_to(INSTALLED / "models")
    port = free_port()
    env = {**os.environ, "ROOT": str(root), "VENV": str(INSTALLED / "venv"), "PORT": str(port), "MAX_MODEL_LEN": WINDOW}
    done = subprocess.run(["bash", str(SCRIPT)], env=env, capture_output=True, text=True, timeout=400)
    log = root / "logs" / "upstream.log"
    if done.returncode:
        raise AssertionError(f"vLLM did not start: {done.stdout[-2000:]}\n{log.read_text()[-2000:]}")
    return f"http://127.0.0.1:{port}", int((root / "upstream.pid").read_text())


@pytest.fixture(scope="session")
def vllm() -> Iterator[ModelServer]:
    """The real vLLM."""
    if url := os.environ.get("VLLM_URL"):
        yield ModelServer(url.rstrip("/"))
        return
    if not SCRIPT.exists():
        pytest.skip(f"the start script of the real vLLM is not there: {SCRIPT}")
    with tempfile.TemporaryDirectory(prefix="vllm-") as folder:
        url, pid = _started(Path(folder))
        try:
            yield ModelServer(url)
        finally:
            _stop(pid)


@pytest.fixture(scope="session")
def remembering(vllm: ModelServer) -> Iterator[Service]:
    """The service before it, shared by tests that keep apart by their user."""
    with serving(vllm.url, env=PATIENT) as service:
        yield service
