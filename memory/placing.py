"""Where a memory block stands in a user message: the text of a request and a place in it in, the edit that puts it in.

At the head of the client's own words, inside the message (DESIGN section 5), so that nothing before it changes. Said
once: the proxy places by it, and the worker's question to the serving vLLM has to begin with the very same bytes.
"""

from __future__ import annotations

from memory.json_spans import Edit, json_string, parse_object


def block_edit(text: str, start: int, block: str) -> Edit:
    """The edit that puts `block` into the message whose brace opens at text[start].

    Raises ValueError where its content is neither a string nor a list of parts, JsonUnreadable where it is no object.
    """
    content = parse_object(text, start).last("content")
    if content is None or not isinstance(content.value, (str, list)):
        raise ValueError("this message has no content that takes a block")
    raw = json_string(block)
    if isinstance(content.value, str):
        raw = raw[1:-1]
    else:
        raw = f'{{"type":"text","text":{raw}}}' + ("," if content.value else "")
    return Edit(content.value_start + 1, content.value_start + 1, raw)
