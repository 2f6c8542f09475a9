"""What a dataset holds, for people and programs: stats, the first examples, and the closed tables of shardkit itself."""
