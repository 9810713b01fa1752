"""Public room: private Frank-Wolfe, and its baseline."""
