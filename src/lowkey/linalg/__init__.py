"""Public room: pure maths on public arrays."""
