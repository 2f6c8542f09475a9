"""Datasets as others read them: one file a format, a card beside each export."""

from shardkit.prepare.export.config import ExportConfig, ExportResult
from shardkit.prepare.export.formats import EXPORTS
from shardkit.prepare.export.run import run

__all__ = ["EXPORTS", "ExportConfig", "ExportResult", "run"]
