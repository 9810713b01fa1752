"""Local room: the HTTP service. A history lives for one request: it is never logged, stored, cached or put in an error."""
