"""The whole service, as a client meets it: SDK, sockets, bytes, faults."""
