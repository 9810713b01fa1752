"""Public room: private singular directions."""
