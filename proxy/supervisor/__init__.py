"""The supervisor: one listening socket, the embedded servers, and the processes that serve; it imports neither side."""
