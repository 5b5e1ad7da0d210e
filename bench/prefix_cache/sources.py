"""Where recorded dialogues come from: a path and a number in, dialogues out. Raises OSError, ValueError."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.prefix_cache.dialogues import Dialogue, read_dialogues

# Evaluation data stands beside the project and never in it.
SHAREGPT: Final = Path(__file__).resolve().parents[3] / "shared" / "evaldata" / "sharegpt_300_multiturn.jsonl.xz"


def dialogues_of(path: Path, number: int) -> list[Dialogue]:
    """The first `number` dialogues. Raises ValueError where there are none."""
    if not path.is_file():
        raise ValueError(f"{path} is not there: name a file of dialogues with --file, one JSON object a line")
    found = list(read_dialogues(path))[:number]
    if not found:
        raise ValueError(f"{path} holds no dialogue of a question and an answer")
    return found
