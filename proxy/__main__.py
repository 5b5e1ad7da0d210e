"""`memory-proxy`: a command line in, an exit code out. 0 done, 1 failed (the reason on stderr), 2 wrong usage, 130
after Ctrl-C.
"""

from __future__ import annotations

import sys

from memory.at_terminal import at_terminal
from proxy.cli.client import CallFailed
from proxy.cli.parser import build_parser


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the console script."""
    words = sys.argv[1:] if arguments is None else arguments

    def work() -> int:
        parsed = build_parser(words).parse_args(words)
        try:
            code: int = parsed.run(parsed)
        except CallFailed as fault:  # an answer was read already, and lacks what is to be shown
            sys.stderr.write(f"memory-proxy: {fault}\n")
            return 1
        return code

    return at_terminal(work)


if __name__ == "__main__":
    sys.exit(main())
