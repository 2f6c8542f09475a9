"""Streams of files that were never ingested: WebDataset tars, HF datasets.

    WebDatasetTars, HFDataset -> Sample             source: where samples lie            tars.py hf.py
    Sample -> Example -> lengths                    measured on a first pass             measure.py
    lengths -> plan -> batches                      the loader's own packing             stream.py

Nothing is deduplicated, split or traced, and no digest is known: a state promises less than that of a dataset.
"""

from shardkit.loader.foreign.hf import HFDataset
from shardkit.loader.foreign.sample import Sample, Source
from shardkit.loader.foreign.stream import ForeignLoader
from shardkit.loader.foreign.tars import WebDatasetTars

__all__ = ["ForeignLoader", "HFDataset", "Sample", "Source", "WebDatasetTars"]
