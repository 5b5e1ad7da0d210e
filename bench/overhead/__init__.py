"""What the proxy costs, paired with direct and with a plain proxy. `python -m bench.overhead --help`."""
