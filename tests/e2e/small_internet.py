"""A network of its own with one public site in it: what a service makes of a chat that asks for pages of the web.

`unshare -n python -m tests.e2e.small_internet USER`: a search service on loopback, a site at a public address that is
routed nowhere else, a stand-in upstream and a whole service. Prints one JSON object of what was seen.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from tests.e2e.talk import Said, ask, turn
from tests.e2e.upstreams import last
from tests.service_fixture import serving, stand_in

PUBLIC: Final = "93.184.215.14"
QUESTION: Final = "How high is Triglav?"
PAGE: Final = b"""<title>Triglav</title><main><h1>Triglav</h1><p>Triglav is a mountain of the Julian Alps, and its top
stands 2864 metres above the sea, higher than any other in the country.</p></main>"""


class _Answers(BaseHTTPRequestHandler):
    """The search service and the site: what is searched for is the one page there is."""

    def do_GET(self) -> None:
        """Answer by path."""
        asked.append(self.path)
        if self.path.startswith("/search"):
            found = [{"url": f"http://{PUBLIC}/triglav", "title": "Triglav", "content": ""}]
            self._say(200, "application/json", json.dumps({"results": found}).encode())
        elif self.path == "/triglav":
            self._say(200, "text/html", PAGE)
        else:
            self._say(404, "text/plain", b"")

    def _say(self, status: int, media_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: standard error is the test's."""


asked: list[str] = []


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[int]:
    server = ThreadingHTTPServer((host, port), _Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _searches() -> int:
    return sum(path.startswith("/search") for path in asked)


def seen(user: str) -> dict[str, Any]:
    """One conversation: a question without pages, the same with them, then a tool's answer and another question."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_listening(PUBLIC, 80))
        search = stack.enter_context(_listening("127.0.0.1", 0))
        upstream = stack.enter_context(stand_in())
        env = {
            "MEMORY_PROXY_OUTSIDE__ENABLED": "true",
            "MEMORY_PROXY_OUTSIDE__SEARCH_URL": f"http://127.0.0.1:{search}",
        }
        service = stack.enter_context(serving(upstream, env=env))

        def told(said: Said) -> dict[str, Any]:
            content = last(upstream)[0].json["messages"][-1]["content"]
            return {
                "status": said.status,
                "outside": said.memory("outside"),
                "prompt": content,
                "searches": _searches(),
            }

        bare = told(ask(service, QUESTION, user, session="bare"))
        with_pages = told(ask(service, QUESTION, user, session="asks", outside="now"))
        in_body = told(ask(service, QUESTION, user, session="body", body={"memory": {"outside": "now"}}))
        called = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        loop = [
            turn("user", QUESTION),
            turn("assistant", None, tool_calls=[called]),
            turn("tool", "2864", tool_call_id="c1"),
        ]
        in_loop = told(ask(service, loop, user, session="loop", outside="now"))
        service.settle()
        return {
            "bare": bare, "with": with_pages, "body": in_body, "loop": in_loop, "searches": _searches(),
            "documents": service.call("GET", "/memory/v1/documents", X_Memory_User=user)["data"],
            "log": [line for line in service.log.read_text().splitlines() if "outside=found" in line],
        }  # fmt: skip


if __name__ == "__main__":
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "addr", "add", f"{PUBLIC}/32", "dev", "lo"], check=True)
    print(json.dumps(seen(sys.argv[1])))
