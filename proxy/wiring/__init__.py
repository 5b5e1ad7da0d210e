"""Where a proxy worker is put together: the only modules of the request side that name adapters."""
