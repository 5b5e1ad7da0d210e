"""What the Dockerfile says is what the program takes: its command and environment make settings that can be used."""

import http.server
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from memory.adapters.model_files import default_cache_dir
from memory.config import effective_data_dir, load_settings, write_private
from proxy.cli import parser
from proxy.cli.serve import settings_of
from proxy.supervisor.data_dir import claimed

DOCKERFILE = (Path(__file__).parent.parent / "Dockerfile").read_text()


def instruction(name: str) -> str:
    """The last instruction of that name, without its name."""
    said: list[str] = re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)
    return said[-1]


def test_the_image_starts_with_what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for pair in shlex.split(instruction("ENV")):
        name, _, value = pair.partition("=")
        if name.startswith("MEMORY_PROXY_"):
            monkeypatch.setenv(name, value)
    line: list[str] = [*json.loads(instruction("ENTRYPOINT")), *json.loads(instruction("CMD"))]
    program, *words = line
    settings = settings_of(parser.build_parser().parse_args(words))
    assert program == "memory-proxy"
    assert settings.listen.port == int(instruction("EXPOSE"))
    assert str(effective_data_dir(settings, is_root=False, home=Path("/nowhere"))) == instruction("VOLUME")


@pytest.mark.parametrize("command", ["key list", "migrate --check", "doctor", "hygiene"])
def test_a_command_in_the_container_is_about_its_service(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`docker exec memory memory-proxy key list`: the image's command line, with its --data-dir, is not its own."""
    for pair in shlex.split(instruction("ENV")):
        name, _, value = pair.partition("=")
        if name.startswith("MEMORY_PROXY_"):
            monkeypatch.setenv(name, value)
    given = parser.build_parser().parse_args(command.split())
    settings = load_settings(given.config, {"data.dir": given.data_dir}, os.environ)
    assert str(effective_data_dir(settings, is_root=False, home=Path("/nowhere"))) == instruction("VOLUME")


def test_what_the_image_sets_is_set_otherwise_by_the_name_of_the_page() -> None:
    """A second name for a setting of the image, as `docker run -e` gives it, would be refused as another value."""
    image = dict(pair.split("=", 1) for pair in shlex.split(instruction("ENV")))
    given = {"MEMORY_PROXY_LISTEN__OPEN_ON_NETWORK": "false", "MEMORY_PROXY_DATA__DIR": "/elsewhere"}
    settings = load_settings(None, {}, {**image, **given})
    assert (settings.listen.open_on_network, settings.data.dir) == (False, Path("/elsewhere"))


def test_a_volume_in_which_only_the_doctor_was_is_still_an_empty_one(tmp_path: Path) -> None:
    environ = dict(pair.split("=", 1) for pair in shlex.split(instruction("ENV")))
    volume = tmp_path / "volume"
    cache = volume / default_cache_dir(environ).relative_to(instruction("VOLUME"))
    cache.mkdir(parents=True)
    with claimed(volume, None, {}) as data:
        assert data.root == volume


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_health_of_a_container_is_asked_of_itself(status: int, code: int, tmp_path: Path) -> None:
    """On whatever port it was told to listen. Docker puts the proxy of its own configuration into every container's
    environment.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/memory/health" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (asked,) = re.findall(r"^  CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
        program, *words = (word.replace(instruction("VOLUME"), str(tmp_path)) for word in json.loads(asked))
        (tmp_path / "run").mkdir()
        settings = load_settings(None, {"listen.port": server.server_port}, {})
        write_private(settings, tmp_path / "run" / "settings.json")
        env = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
        ran = subprocess.run([sys.executable, *words], env=env, capture_output=True, timeout=30, check=False)
        server.shutdown()
    assert (program, ran.returncode) == ("python", code), ran.stderr
