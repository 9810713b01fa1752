"""Local room: what a user's own device computes from a release and the user's own history; nothing is stored or logged."""
