"""Public room: the curator's half of each method: a plan, a loop over posts, and post-processing."""
