"""concat: datasets as one, their shards by reference."""
