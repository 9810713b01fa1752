"""Public room: private gradient descent on factors."""
