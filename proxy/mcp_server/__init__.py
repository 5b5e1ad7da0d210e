"""The MCP server: a process of its own that offers the tools for agents and calls the API with its caller's key."""
