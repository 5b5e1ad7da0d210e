"""`python -m bench.fake_vllm --port 8000`: serve the stand-in until SIGTERM."""

import argparse
import sys

import uvloop

from bench.fake_vllm.launch import serve
from bench.fake_vllm.settings import UnknownSetting, add_arguments, settings_from_arguments

EXAMPLES = """examples:
  python -m bench.fake_vllm --port 8000                              an instant, healthy vLLM
  python -m bench.fake_vllm --port 8000 --first-ms 50 --token-ms 15  paced like a GPU
  curl -N localhost:8000/v1/chat/completions -H 'content-type: application/json' -H 'x-fake-die-after: 3' \\
       -d '{"stream": true, "messages": [{"role": "user", "content": "say: hello world"}]}'
  curl localhost:8000/__control -d '{"status": 503, "retry_after": 2}'     faults for everyone
  curl localhost:8000/__control -d '{"next": [{"status": 500}, {}]}'       a fault for the next request only
  curl 'localhost:8000/__last?n=2'                                         the last requests, byte for byte
  curl localhost:8000/__counters                                           started, finished, cancelled, running

it answers: `say: X` in the last user message with X; `call: NAME {json}` with a tool call where tools
are offered; otherwise --tokens filler tokens, or a sentence on what was asked."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.fake_vllm",
        description="A stand-in for vLLM 0.32: the same wire, no model; settable pace and faults.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one; the ready line names it")
    add_arguments(parser)
    arguments = parser.parse_args(argv)
    try:
        settings = settings_from_arguments(arguments)
    except UnknownSetting as exc:
        parser.error(str(exc))
    uvloop.run(serve(settings, arguments.host, arguments.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
