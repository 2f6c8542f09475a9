"""shrink: the same examples with smaller pictures."""
