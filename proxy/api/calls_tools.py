"""What `/memory/openapi.json` says of the tools for agents: the table of tools in, descriptions of calls out. Pure."""

from __future__ import annotations

from typing import Final

from proxy.api.call import BODY, CALLER, Call
from proxy.api.schemas_tools import ToolList
from proxy.api.tool_table import TOOLS, TOOLS_PATH, Tool

_SCOPED: Final = ("tool_session", "scope")
TOOL_PARAMETERS: Final = {
    "tool_session": {
        "in": "header",
        "name": "X-Memory-Session",
        "schema": {"type": "string", "minLength": 1, "maxLength": 256},
        "description": "The conversation that the call is made in; `tools` without it.",
        "required": False,
    }
}


def _called(tool: Tool) -> Call:
    return Call(
        "POST",
        tool.path,
        "call" + "".join(word.capitalize() for word in tool.name.split("_")),
        f"{tool.description} Wants {tool.capability}.",
        tool.answer,
        body=tool.arguments,
        parameters=_SCOPED,
        errors=(*CALLER, *BODY, *tool.errors),
        also=((202, "It is durable, or under way, and not done yet."),) if tool.writes else (),
    )


TOOL_CALLS: Final = (
    Call(
        "GET",
        TOOLS_PATH,
        "listTools",
        "The tools for agents as an OpenAI client adds them to `tools`: fixed order, fixed bytes.",
        ToolList,
        errors=CALLER,
        parameters=("scope",),
    ),
    *map(_called, TOOLS),
)
