"""Promise 3 on a running service: a short version of `python -m bench.crash`, and the single cases it found."""
