"""The way of an exchange from the queue into the store."""
