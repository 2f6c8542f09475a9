"""How records are kept: each module plans slices, cuts chunks and reads records of one kind of file."""
