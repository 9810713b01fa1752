"""Public room: item means, and popularity."""
