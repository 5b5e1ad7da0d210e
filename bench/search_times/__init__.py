"""How long a search takes, by the number of memories in scope: `python -m bench.search_times`."""
