"""What things are: frozen, keyword-only records without behaviour of their own."""

from shardkit.records.asset import Image, LayoutItem
from shardkit.records.counts import Exclusion, Tally
from shardkit.records.example import Example, Segment, example_id
from shardkit.records.relation import Relation

__all__ = ["Example", "Exclusion", "Image", "LayoutItem", "Relation", "Segment", "Tally", "example_id"]
