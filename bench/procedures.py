"""How often the rules take a text for a procedure: the shared sets in, a table and everything that fires out.

    python -m bench.procedures                      user turns of LoCoMo, BEAM and ShareGPT, and the attacks
    python -m bench.procedures --assistants         what the machines wrote, as if users had: many lists and how-tos

What fires is shown, all of it, to be judged by eye: the sets hold hardly any teaching, so they measure junk and not
what is missed (tests/test_procedure_policy.py has texts for both). Refuses (SetUnreadable) missing files. No model
judges.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.facts import DATA, user_turns
from bench.recall.corpus import SetUnreadable, read_objects
from policies.procedure import procedures_in
from policies.taught import Procedure

_ASSISTANTS: Final = ("beam_100K.corpus.jsonl.xz", "sharegpt_300_multiturn.jsonl.xz")


def texts_of_users(data: Path) -> dict[str, list[str]]:
    """The user turns by set. Raises SetUnreadable."""
    found = {name: [turn.text for turn in user_turns(data, name)] for name in ("locomo", "beam", "sharegpt")}
    return found | {"attacks": [str(one["text"]) for one in read_objects(data / "attacks.jsonl.xz")]}


def texts_of_assistants(data: Path) -> dict[str, list[str]]:
    """What the assistants of two sets wrote. Raises SetUnreadable."""
    found: dict[str, list[str]] = {}
    for name in _ASSISTANTS:
        lines = read_objects(data / name)
        messages = [message for line in lines for message in (line.get("messages") or [line])]
        said = [message for message in messages if message.get("role") == "assistant"]
        found[name.partition(".")[0]] = [str(message.get("content", message.get("text", ""))) for message in said]
    return found


def report(name: str, texts: Sequence[str]) -> Iterator[str]:
    """One line of figures, and all that fired."""
    began = time.process_time()
    fired = [(text, one) for text in texts for one in procedures_in(text)]
    millis = (time.process_time() - began) * 1000 / max(1, len(texts))
    yield f"{name:12} {len(texts):6} turns  {len(fired):4} procedures  {millis:.3f} ms a turn"
    for _, one in fired:
        yield from _shown(one)


def _shown(one: Procedure) -> Iterator[str]:
    yield f"    {one.lead}"
    yield from (f"      {number}. {step.text}" for number, step in enumerate(one.steps, 1))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What fires as a procedure in the shared sets.")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--assistants", action="store_true", help="read the assistants' words instead")
    options = parser.parse_args(argv)
    try:
        sets = (texts_of_assistants if options.assistants else texts_of_users)(options.data)
    except SetUnreadable as fault:
        sys.stderr.write(f"{fault}\n")
        return 2
    for name, texts in sets.items():
        sys.stdout.writelines(line + "\n" for line in report(name, texts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
