"""Kernel room: the private half of each method; bare private arrays live here, inside pure functions, and nowhere else."""
