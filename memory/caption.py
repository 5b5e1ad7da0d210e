"""`python -m memory.caption`: a picture and a model on standard input, its caption or why there is none on standard
output.

A process of its own, since the library that asks the model takes seconds and 170 MiB to load, and the one that serves
must not. One JSON object each way: {model, api_base, api_key, timeout_s, media_type, data} in, data in base64;
{caption} or {fault} out, where a fault names no word of picture or prompt.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any, Final

from memory.adapters.chat_model import LiteLlmChatModel
from memory.errors import ChatModelUnavailable

TOKENS_MAX: Final = 300
ASKS: Final = (
    "Describe this picture in at most three plain sentences, as a caption by which it can be found again. If there is "
    "writing in it that matters, quote it. Say nothing else."
)


async def caption(given: dict[str, Any]) -> dict[str, str]:
    """What the model says of the picture."""
    model = LiteLlmChatModel(given["model"], api_base=given["api_base"], api_key=given["api_key"])
    picture = {"type": "image_url", "image_url": {"url": f"data:{given['media_type']};base64,{given['data']}"}}
    message = {"role": "user", "content": [{"type": "text", "text": ASKS}, picture]}
    try:
        said = await model.complete([message], max_tokens=TOKENS_MAX, timeout_s=given["timeout_s"])
    except ChatModelUnavailable as fault:
        return {"fault": str(fault)}
    finally:
        await model.close()
    return {"caption": said}


def main() -> None:
    """Read, ask, answer."""
    answer = asyncio.run(caption(json.loads(sys.stdin.buffer.read())))
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
