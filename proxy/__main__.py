"""`memory-proxy`: a command line in, an exit code out. 0 done, 1 failed (the reason on stderr), 2 wrong usage."""

from __future__ import annotations

import importlib
import sys

from proxy.cli import chat


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the console script."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["chat"]:
        parsed = chat.standing_alone().parse_args(words[1:])
    else:
        # Loaded only here: the libraries of all commands take half a second, for which a prompt should not wait.
        parsed = importlib.import_module("proxy.cli.parser").build_parser().parse_args(words)
    code: int = parsed.run(parsed)
    return code


if __name__ == "__main__":
    sys.exit(main())
