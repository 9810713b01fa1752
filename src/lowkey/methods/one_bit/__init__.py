"""Public room: one-bit completion."""
