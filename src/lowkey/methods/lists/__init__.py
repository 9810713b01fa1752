"""Public room: lists of what to take next, from who took what."""
