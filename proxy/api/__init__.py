"""The proxy's own API: everything under `/memory/`."""
