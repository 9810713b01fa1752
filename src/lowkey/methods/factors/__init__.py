"""Public room: factors in rounds, solved with the noise in mind."""
