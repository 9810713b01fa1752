"""Lab room: the papers' experiments: what each paper runs, in three columns, and the rules that judge its claims."""
