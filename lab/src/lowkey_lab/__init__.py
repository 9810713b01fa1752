"""Lab room: the experiments: every method on one split, one adjacency, one delta, one accounting."""
