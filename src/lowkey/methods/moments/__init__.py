"""Public room: moments posted once, whole or through a sketch, and the models made of them."""
