"""Reading: from a scope and a query to ranked candidates."""
