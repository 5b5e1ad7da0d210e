"""The main job on a real vLLM with a real model: `make test-vllm`."""
