"""A method of another package: one kernel file, one method file, one entry point."""
