"""A stand-in for vLLM 0.32: same wire, no model. `python -m bench.fake_vllm --help` teaches it."""
