"""Public room: the command line."""
