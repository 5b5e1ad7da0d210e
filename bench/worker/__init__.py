"""What the write path does, measured: see `python -m bench.worker --help`."""
