"""A cross-encoder in a running service: it is heard, and one that cannot be used stops the start and is named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from memory.config import ENV_PREFIX, load_settings, write_private
from proxy.cli import check_model
from proxy.cli.checks import failed
from proxy.supervisor.listener import open_listener
from tests.cross_encoder_fixture import write_cross_encoder
from tests.service_fixture import Service


@pytest.mark.long
def test_a_search_says_what_the_reranker_thought(
    own_service: Callable[..., AbstractContextManager[Service]], tmp_path: Path
) -> None:
    directory = write_cross_encoder(tmp_path)
    with own_service(env={f"{ENV_PREFIX}RECALL__RERANKER_DIR": str(directory)}) as service:
        for said in ("My boat is called Halcyon.", "I drink tea all day."):
            body = {"model": "fake-model", "messages": [{"role": "user", "content": said}], "max_tokens": 4}
            service.call("POST", "/v1/chat/completions", body, Content_Type="application/json")
        service.settle()
        found = service.call(
            "POST", "/memory/v1/search", {"query": "what is my boat called"}, Content_Type="application/json"
        )
    assert found["rung"] == "full"
    assert "Halcyon" in found["candidates"][0]["content"]
    assert all(0 <= candidate["scores"]["rerank"] <= 1 for candidate in found["candidates"])


def test_a_worker_does_not_start_with_a_reranker_that_is_not_there(tmp_path: Path) -> None:
    settings = load_settings(None, {"recall.reranker_dir": str(tmp_path / "absent"), "data.dir": str(tmp_path)}, {})
    write_private(settings, tmp_path / "settings.json")
    env = {f"{ENV_PREFIX}SETTINGS": str(tmp_path / "settings.json"), "PYTHONPATH": ":".join(sys.path)}
    with open_listener("127.0.0.1", 0) as listener:
        ran = subprocess.run(
            [sys.executable, "-m", "proxy.worker"],
            env={**env, f"{ENV_PREFIX}LISTEN_FD": str(listener.fileno())},
            pass_fds=[listener.fileno()],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert ran.returncode == 2
    assert f"{tmp_path}/absent/model.onnx: expected a file, found none" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(("deadline_ms", "level"), [(60_000, "ok"), (1, "warn")])
def test_the_doctor_says_how_long_re_ranking_takes(tmp_path: Path, deadline_ms: float, level: str) -> None:
    overrides = {"recall.reranker_dir": str(write_cross_encoder(tmp_path)), "recall.deadline_ms": deadline_ms}
    (found,) = check_model.reranker(load_settings(None, overrides, {}))
    assert found.level == level
    assert "ms for 20 candidates" in found.found


def test_the_doctor_names_the_file_of_a_reranker_that_cannot_be_used(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path, outputs=3)
    found = check_model.reranker(load_settings(None, {"recall.reranker_dir": str(tmp_path)}, {}))
    assert failed(found)
    assert f"{tmp_path}/model.onnx" in found[0].found
    (without,) = check_model.reranker(load_settings(None, {}, {}))
    assert without.level == "ok"
