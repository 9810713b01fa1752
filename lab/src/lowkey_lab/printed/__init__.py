"""Lab room: the five papers as printed, one file each, line by line, in plain arrays. Nothing here can be released."""
