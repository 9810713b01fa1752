"""Public room: trace regression."""
