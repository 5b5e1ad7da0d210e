"""Real traffic, replayed open loop against a service and a baseline. `python -m bench.trace --help`."""
