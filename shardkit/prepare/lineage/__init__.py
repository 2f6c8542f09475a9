"""Where a batch, a sequence, an example or an asset comes from, what became of a raw row, and datasets without it."""
