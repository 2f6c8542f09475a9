"""shardkit: raw dumps to hashed, deduplicated, split shards, and a stream that resumes exactly."""

__version__ = "0.1.0"
