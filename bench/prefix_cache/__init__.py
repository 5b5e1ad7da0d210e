"""What memory costs in vLLM's prefix cache. `python -m bench.prefix_cache --help` teaches it."""
