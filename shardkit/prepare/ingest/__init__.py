"""Raw dumps to a dataset of hashed examples.

    listing     which files                                  -> InputFile
    units       slices of the inputs, by their borders alone -> Unit
    containers  lines, tables, parquet, tars, pairs           -> Record
    formats     rows, caption, ocr, obelics, chat, text             -> Draft
    example     images read, decoded, described               -> Example
    run         shards, tables, receipts, the commit          -> dataset

A new source format is one file with `drafts` and one line in `formats.SOURCES`.
"""

from shardkit.prepare.ingest.config import IngestConfig
from shardkit.prepare.ingest.formats import SOURCES
from shardkit.prepare.ingest.formats.detect import AUTO, resolved
from shardkit.prepare.ingest.reasons import REASONS
from shardkit.prepare.ingest.result import IngestResult
from shardkit.prepare.ingest.run import run

__all__ = ["AUTO", "REASONS", "SOURCES", "IngestConfig", "IngestResult", "resolved", "run"]
