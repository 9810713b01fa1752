"""Lab room: methods with the noise that their papers print, and the guarantee that really holds for it."""
