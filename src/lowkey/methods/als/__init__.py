"""Public room: private alternating least squares, and its baseline."""
