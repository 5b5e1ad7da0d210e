"""`python -m bench.soak`: an hour of real traffic, and whether the service is at its end as at its start.

`bench.trace` with other defaults: azure, x1, 59 minutes, judged (`--endurance`). Asked: no request fails; the memory of
all processes in the last ten minutes is at most 5 % above that of minutes 5 to 15; p50 to the first byte and CPU a
request are within 1.2 of the first ten; memory is kept out of at most half of the answers by then. Exit 1 where one is
missed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

from bench.trace.__main__ import measured, parse_arguments

PRESET: Final[dict[str, Any]] = {"trace": "azure", "speed": 1.0, "minutes": 59.0, "endurance": True}


def main(argv: Sequence[str] | None = None) -> int:
    """Run and report."""
    return measured(parse_arguments(argv, "python -m bench.soak", PRESET))


if __name__ == "__main__":
    sys.exit(main())
