"""`memory-proxy reembed` on a running service: recall answers all along, and a changed configuration loses nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.service_fixture import Service
from tests.small_model_fixture import write_small_model
from tests.waiting import wait_until

CLI = str(Path(sys.executable).parent / "memory-proxy")
USER = {"X_Memory_User": "ada"}
THINGS = ("boat", "cat", "garden", "violin", "bakery", "mountain", "bicycle", "teapot", "castle", "harbour")
Own = Callable[..., AbstractContextManager[Service]]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A model of 32 dimensions in a directory."""
    yield write_small_model(tmp_path / "small")


def told(service: Service, count: int, start: int = 0) -> None:
    lines = [
        {"role": "user", "content": f"Number {n}: my {THINGS[n % 10]} has the name Halcyon{n}.", "session": f"s{n}"}
        for n in range(start, start + count)
    ]
    body = "".join(json.dumps(line) + "\n" for line in lines).encode()
    asked = Request(f"{service.url}/memory/v1/import", body, headers={"X-Memory-User": "ada"})
    for _ in range(3):  # a worker that is being replaced ends an import early: the same lines again are no others
        with urlopen(asked) as answer:
            if json.loads(answer.read().splitlines()[-1])["done"] == count:
                return
    pytest.fail(f"{count} lines were not taken in three imports")


def found(service: Service, question: str) -> list[dict[str, Any]]:
    candidates: list[dict[str, Any]] = service.call("POST", "/memory/v1/search", {"query": question}, **USER)[
        "candidates"
    ]
    return candidates


def reembed(service: Service, *words: str) -> subprocess.CompletedProcess[str]:
    command = [CLI, "reembed", *words, "--data-dir", str(service.data)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def standing(service: Service) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(reembed(service, "--status", "--json").stdout)
    return said


class Asking(threading.Thread):
    """Asks one question after the other, by search and in a chat, and keeps what came back."""

    def __init__(self, service: Service) -> None:
        super().__init__(daemon=True)
        self.service, self.over = service, threading.Event()
        self.answers: list[tuple[float, int, str]] = []
        self.faults: list[str] = []

    def run(self) -> None:
        number = 0
        body = {
            "model": "fake-model",
            "max_tokens": 4,
            "messages": [{"role": "user", "content": "What is the name of my boat?"}],
        }
        while not self.over.is_set():
            number += 1
            try:
                names = found(self.service, f"What is the name of my {THINGS[number % 10]}?")
                headers = {"X-Memory-User": "ada", "X-Memory-Mode": "read", "Content-Type": "application/json"}
                request = Request(f"{self.service.openai}/chat/completions", json.dumps(body).encode(), headers)
                with urlopen(request, timeout=60) as answer:
                    status = answer.headers["X-Memory-Status"]
                self.answers.append((time.monotonic(), len(names), status))
            except (OSError, KeyError, TypeError) as fault:
                self.faults.append(repr(fault))

    def __enter__(self) -> Asking:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join(60)


def wait_for_model(service: Service, before: list[int]) -> None:
    """Until no process of before the switch serves any more."""
    wait_until(lambda: not set(service.children(r"proxy\.worker")) & set(before), what="they are gone")


@pytest.mark.long
def test_a_model_is_filled_switched_to_and_back_while_recall_answers(own_service: Own, small: Path) -> None:
    with own_service("--workers", "2") as service:
        told(service, 40)
        assert standing(service)["standby"] is None
        with Asking(service) as asking:
            filled = reembed(service, "--to", "small", "--directory", str(small))
            assert filled.returncode == 0, filled.stderr
            assert "40 to go" in filled.stderr or "memories at" in filled.stderr
            told(service, 5, start=40)
            before = service.children(r"proxy\.worker")
            switched = reembed(service, "--switch")
            assert switched.returncode == 0, switched.stderr
            told(service, 5, start=45)
            wait_for_model(service, before)
            assert standing(service)["served"]["name"] == "small"
            assert found(service, "What is the name of my teapot?")
            assert any("Halcyon47" in one["content"] for one in found(service, "Number 47: my teapot Halcyon47"))
            before = service.children(r"proxy\.worker")
            back = reembed(service, "--back")
            assert back.returncode == 0, back.stderr
            wait_for_model(service, before)
            assert any("Halcyon47" in one["content"] for one in found(service, "Number 47: my teapot Halcyon47"))
        assert asking.faults == [], service.tail()
        assert len(asking.answers) > 20
        assert {status.partition(";")[0] for _, _, status in asking.answers} == {"injected"}, asking.answers
        assert min(count for _, count, _ in asking.answers) > 0
        said = standing(service)
        assert (said["served"]["dim"], said["standby"]["dim"]) == (384, 32)
        # An edit is embedded by the model that is served.
        one = found(service, "Number 47: my teapot Halcyon47")[0]
        path = f"/memory/v1/memories/{one['id']}"
        version = service.call("GET", path, **USER)["version"]
        assert service.call("PATCH", path, {"content": "My teapot is Zephyr."}, **USER, If_Match=str(version))["id"]
        assert found(service, "Which teapot is Zephyr?")[0]["id"] == one["id"]


@pytest.mark.long
def test_a_fill_is_broken_off_and_goes_on_and_the_former_model_is_dropped(own_service: Own, small: Path) -> None:
    with own_service() as service:
        told(service, 300)
        command = [CLI, "reembed", "--to", "small", "--directory", str(small), "--rest", "200"]
        with subprocess.Popen(
            [*command, "--data-dir", str(service.data)], stderr=subprocess.PIPE, text=True
        ) as filling:
            assert filling.stderr is not None
            filling.stderr.readline()
            while standing(service)["left"] >= 300:  # what was told of first may be the canary's, in a scope of its own
                assert filling.poll() is None
            filling.send_signal(signal.SIGINT)
            said = filling.communicate(timeout=60)[1]
        assert filling.returncode == 0, said
        assert "paused" in said
        left = standing(service)["left"]
        assert 0 < left < 300
        again = reembed(service, "--to", "small")
        assert again.returncode == 0, again.stderr
        assert standing(service)["left"] == 0
        assert "switched" in reembed(service, "--back").stderr
        assert reembed(service, "--drop").returncode == 0
        assert standing(service)["standby"] is None
        assert reembed(service, "--switch").returncode == 2


@pytest.mark.long
def test_another_configured_model_does_not_change_what_a_filled_store_is_searched_with(
    own_service: Own, small: Path
) -> None:
    with own_service() as service:
        told(service, 10)
        assert service.stop() == 0
        service.extra.update(MEMORY_PROXY_EMBEDDING__MODEL="small", MEMORY_PROXY_EMBEDDING__DIRECTORY=str(small))
        service.restart()
        assert found(service, "What is the name of my boat?")
        assert standing(service)["served"]["dim"] == 384
        assert "model_kept" in service.log.read_text()
        assert reembed(service, "--to", "small").returncode == 0
        before = service.children(r"proxy\.worker")
        assert reembed(service, "--switch").returncode == 0
        wait_for_model(service, before)
        assert service.stop() == 0
        for name in ("MODEL", "DIRECTORY"):  # and back to a configuration that names the other one
            del service.extra[f"MEMORY_PROXY_EMBEDDING__{name}"]
        service.restart()
        assert standing(service)["served"]["dim"] == 32
        told(service, 1, start=77)
        assert any("Halcyon77" in one["content"] for one in found(service, "Number 77: my teapot Halcyon77"))
        assert service.stop() == 0
        (small / "model.onnx").unlink()
        with pytest.raises(AssertionError, match="on_lost_model"):
            service.restart()
        service.process.wait(30)
        service.extra["MEMORY_PROXY_EMBEDDING__ON_LOST_MODEL"] = "words"
        service.restart()
        assert any("Halcyon77" in one["content"] for one in found(service, "Number 77: my teapot Halcyon77"))
        mended = reembed(service, "--to", "all-MiniLM-L6-v2-int8")
        assert mended.returncode == 0, mended.stderr
        assert "every process reads it now" in mended.stderr


@pytest.mark.long
def test_an_empty_store_takes_the_configured_model(own_service: Own, small: Path) -> None:
    with own_service() as service:
        assert service.stop() == 0
        service.extra.update(MEMORY_PROXY_EMBEDDING__MODEL="small", MEMORY_PROXY_EMBEDDING__DIRECTORY=str(small))
        service.restart()
        assert standing(service)["served"]["dim"] == 32
        told(service, 3)
        assert found(service, "What is the name of my cat?")


def test_without_a_service_the_command_says_so(tmp_path: Path) -> None:
    said = subprocess.run(
        [CLI, "reembed", "--data-dir", str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert said.returncode == 1
    assert "no service runs" in said.stderr
