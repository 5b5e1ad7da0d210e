"""The protocol code: bytes in, values and bytes out. Nothing in this package does I/O."""
