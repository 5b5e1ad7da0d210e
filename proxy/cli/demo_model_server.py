"""The demo's model server: `python -m proxy.cli.demo_model_server GGUF NAME` -> OpenAI's chat API, in this process.

Runs on a free loopback port, says `{"url": …}` in one line on standard output once it answers, and serves until SIGTERM
or until whoever started it is gone. xllamacpp is no dependency of the project: the demo installs it into its cache and
puts it on this process' path.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import xllamacpp

WINDOW_TOKENS = 4096
ANSWER_THREADS_MAX = 4
PARENT_POLL_S = 1.0


def main(gguf: str, name: str) -> int:
    """Serve one model."""
    parent = os.getppid()
    params = xllamacpp.CommonParams()
    params.model.path = gguf
    params.model_alias = {name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = WINDOW_TOKENS
    params.n_parallel = 1
    params.cpuparams.n_threads = min(ANSWER_THREADS_MAX, os.cpu_count() or 1)
    params.ui = False
    params.offline = True
    server = xllamacpp.Server(params)
    sys.stdout.write(json.dumps({"url": server.listening_address}) + "\n")
    sys.stdout.flush()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
