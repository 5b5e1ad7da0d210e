"""How good recall is through the front door: evaluation sets imported and asked by the service's own HTTP API."""
