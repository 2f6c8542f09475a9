"""Layout files that end in .xml: which of the dialects one is, by the local name of its root."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from shardkit.prepare.ingest.formats import alto, hocr, page_xml
from shardkit.prepare.ingest.formats.label import Label
from shardkit.prepare.ingest.formats.xml_safe import Element, parse_xml
from shardkit.prepare.ingest.reasons import Bad, plain

DIALECTS: dict[str, Callable[[Element, Counter[str]], Label]] = {
    "alto": alto.label,
    "PcGts": page_xml.label,
    "html": hocr.label,
}
"""Root element -> how it is read."""


def read(data: bytes, changes: Counter[str]) -> Label:
    """The label in an XML file of any dialect.

    Raises:
        Bad: where it is none of them, or cannot be used.
    """
    root = parse_xml(data)
    if root.name not in DIALECTS:
        raise Bad("bad_label", f"the root of the XML is {plain(root.name)}, not one of {', '.join(DIALECTS)}")
    return DIALECTS[root.name](root, changes)
