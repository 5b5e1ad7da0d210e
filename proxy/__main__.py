"""`memory-proxy`: a command line in, an exit code out. 0 done, 1 failed (the reason on stderr), 2 wrong usage, 130
after Ctrl-C.
"""

from __future__ import annotations

import sys

from memory.at_terminal import at_terminal
from proxy.cli.parser import build_parser


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the console script."""
    words = sys.argv[1:] if arguments is None else arguments

    def work() -> int:
        parsed = build_parser(words).parse_args(words)
        code: int = parsed.run(parsed)
        return code

    return at_terminal(work)


if __name__ == "__main__":
    sys.exit(main())
