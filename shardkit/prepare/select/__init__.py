"""select: a view of the examples of which a condition holds."""
