"""What the proxy costs, judged, beside others. `python -m bench.speed --help`."""
