"""Parsing of one uploaded file, in a process of its own: bytes in, blocks of text with their place out (`__main__`)."""
