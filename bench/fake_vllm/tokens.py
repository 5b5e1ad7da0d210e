"""A toy tokenizer and chat template: text <-> token ids, both ways, without any state.

A token is a special marker, one white-space byte, or up to five other bytes with the space before
them (about four characters, as real ones have). Its id holds its bytes, so any process can turn ids
back into text. Cutting is greedy from the left: texts that share a prefix share all tokens of it but
perhaps the last, which is what the prefix cache needs. It refuses nothing: every string has tokens.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

SPECIAL_IDS = {b"<|im_start|>": 1, b"<|im_end|>": 2}
_SPECIAL_TEXTS = {number: text for text, number in SPECIAL_IDS.items()}
_SPECIAL = re.compile(rb"(<\|im_start\|>|<\|im_end\|>)")
_PIECE = re.compile(rb" ?[^\s]{1,5}|\s")
_WORD = re.compile(r" ?[^\s]{1,5}|\s")
_PIECE_BYTES_MAX = 6


def pieces_of(text: str) -> list[bytes]:
    """The tokens of a text, as their bytes; joined they are the text in UTF-8."""
    out: list[bytes] = []
    for part in _SPECIAL.split(text.encode("utf-8", "surrogatepass")):
        if part in SPECIAL_IDS:
            out.append(part)
        else:
            out.extend(_PIECE.findall(part))
    return out


def words_of(text: str) -> list[str]:
    """The same cut on characters, for deltas, where no character may be torn."""
    return _WORD.findall(text)


def ids_of(pieces: Iterable[bytes]) -> list[int]:
    """Token ids, below 2**53 so that every JSON reader keeps them."""
    return [SPECIAL_IDS.get(piece) or int.from_bytes(b"\x01" + piece, "big") for piece in pieces]


def pieces_from_ids(ids: Iterable[int]) -> list[bytes]:
    """The inverse of ids_of. Raises ValueError for a number that is no token."""
    out: list[bytes] = []
    for number in ids:
        special = _SPECIAL_TEXTS.get(number)
        if special is not None:
            out.append(special)
            continue
        raw = number.to_bytes(_PIECE_BYTES_MAX + 1, "big").lstrip(b"\x00") if 0 < number < 1 << 56 else b""
        if len(raw) < 2 or raw[0] != 1:
            raise ValueError(f"{number} is not a token id")
        out.append(raw[1:])
    return out


def text_from_ids(ids: Iterable[int]) -> str:
    """The text that has these tokens. Raises ValueError for a number that is no token."""
    return b"".join(pieces_from_ids(ids)).decode("utf-8", "replace")


def text_of_content(content: object) -> str:
    """A message's content as the template sees it: a string, or the text parts joined by newlines."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(p.get("text", f"<{p.get('type')}>")) for p in content if isinstance(p, dict))
    return ""


def _message_text(message: dict[str, Any]) -> str:
    text = text_of_content(message.get("content"))
    for call in message.get("tool_calls") or ():
        text += f"\n<tool_call>\n{json.dumps(call.get('function'))}\n</tool_call>"
    return text


def no_think_place(body: dict[str, Any], thinking_template: str) -> str:
    """Where the template writes that this request turns thinking off; "none" when it does not."""
    off = (body.get("chat_template_kwargs") or {}).get("enable_thinking") is False
    return thinking_template if off else "none"


def chat_prompt(
    messages: Sequence[dict[str, Any]],
    tools: Sequence[dict[str, Any]] | None = None,
    *,
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
    no_think: str = "none",
) -> str:
    """ChatML: tools first (as a system message), then the messages; role `developer` renders as system.

    `no_think`: thinking is turned off, which a template writes at the head of the prompt, at its tail, or not at all.
    """
    out: list[str] = ["<|im_start|>system\n/no_think<|im_end|>\n"] if no_think == "head" else []
    if tools:
        out.append(f"<|im_start|>system\n<tools>\n{json.dumps(list(tools))}\n</tools><|im_end|>\n")
    for message in messages:
        role = message.get("role", "user")
        out.append(f"<|im_start|>{'system' if role == 'developer' else role}\n{_message_text(message)}<|im_end|>\n")
    if continue_final_message:
        out[-1] = out[-1].removesuffix("<|im_end|>\n")
    elif add_generation_prompt:
        out.append("<|im_start|>assistant\n" + ("<think>\n\n</think>\n\n" if no_think == "tail" else ""))
    return "".join(out)
