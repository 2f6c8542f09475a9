"""croissant: Parquet of the row schema, and croissant.json that describes it.

Croissant 1.1 (MLCommons), with its vocabulary for responsible AI (RAI 1.0) and provenance in the terms of PROV-O. It
states what the dataset knows of itself; what only its owner knows (url, creator, date) is an option of export.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from shardkit.prepare.export.facts import UNKNOWN, Facts
from shardkit.prepare.export.formats.format import Format, Writer
from shardkit.prepare.export.formats.parquet import ParquetWriter
from shardkit.prepare.export.row import OWN
from shardkit.prepare.report.chain import Account

FILE = "croissant.json"
_DATA = "data"
_FIVE = "?????"
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "name": {"@container": "@language"},
    "parentField": "cr:parentField",
    "path": "cr:path",
    "prov": "http://www.w3.org/ns/prov#",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The recommended JSON-LD context of the specification, and PROV-O."""
_SPLITS = {
    "train": "cr:TrainingSplit", "training": "cr:TrainingSplit", "val": "cr:ValidationSplit",
    "validation": "cr:ValidationSplit", "test": "cr:TestSplit",
}  # fmt: skip


def croissant(facts: Facts) -> dict[str, Any]:
    """The description as JSON-LD."""
    about = facts.about
    body = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": facts.name,
        "description": (
            f"{facts.counts.examples} examples with {facts.counts.images} images, prepared by shardkit: texts and images "
            "in order, with the relations between them and where each came from."
        ),
        "version": "1.0.0",
        "identifier": f"urn:sha256:{facts.dataset_id}",
        "url": about.url,
        "creator": [{"@type": "Organization", "name": name} for name in about.creators],
        "datePublished": about.published,
        "citeAs": about.citation,
        "license": list(facts.licences),
        "inLanguage": list(facts.languages),
        "keywords": ["shardkit", *sorted(facts.counts.relations)],
        **_responsible(facts),
        **_provenance(facts.stages),
        "distribution": list(_distribution(facts)),
        "recordSet": _record_sets(facts),
    }
    return {name: value for name, value in body.items() if value}


def _responsible(facts: Facts) -> dict[str, Any]:
    """What is known in the terms of RAI: how it was collected, labelled, prepared, and what is missing."""
    counts = facts.counts
    excluded = [f"{a.stage}: {count} {reason}" for a in facts.stages for reason, count in sorted(a.excluded.items())]
    sources = ", ".join(f"{name} ({count} examples)" for name, count in sorted(counts.by_source.items()))
    relations = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.relations.items()))
    unknown = counts.licences[UNKNOWN]
    return {
        "rai:dataCollection": f"Read from raw dumps of these sources: {sources or 'none'}.",
        "rai:dataCollectionMissingData": f"Rows left out, by stage and reason: {'; '.join(excluded) or 'none'}.",
        "rai:dataCollectionTimeFrame": sorted(counts.retrieved),
        "rai:dataAnnotationProtocol": f"Relations of texts and images as the sources give them: {relations or 'none'}.",
        "rai:machineAnnotationTools": sorted(counts.annotators),
        "rai:dataPreprocessingProtocol": [_told(account) for account in facts.stages],
        "rai:personalSensitiveInformation": (
            "Metadata of pictures (EXIF, GPS, comments) is not in the stored bytes unless it was kept on request; pictures "
            "and texts may show persons."
        ),
        "rai:dataLimitations": (
            f"The licence of {unknown} of {counts.images} images is not known." if unknown else "None is known."
        ),
    }


def _told(account: Account) -> str:
    left = sum(account.excluded.values())
    return f"{account.stage} {account.dataset_id}: read {account.read}, kept {account.kept}, left out {left}"


def _provenance(stages: tuple[Account, ...]) -> dict[str, Any]:
    """The road in terms of PROV-O: what the dataset was derived from, and the stage that made it."""
    before = [f"urn:sha256:{account.dataset_id}" for account in stages[1:]]
    before += [f"urn:sha256:{name}" for account in stages for name in sorted(account.missing)]
    return {
        "prov:wasDerivedFrom": [{"@id": one} for one in dict.fromkeys(before)],
        "prov:wasGeneratedBy": [{"@type": "prov:Activity", "prov:label": _told(account)} for account in stages],
        "prov:wasAttributedTo": {"@type": "prov:SoftwareAgent", "prov:label": "shardkit"},
    }


def _distribution(facts: Facts) -> Iterator[dict[str, Any]]:
    for split, files in facts.files.items():
        for file in files:
            yield {
                "@type": "cr:FileObject",
                "@id": file.path,
                "name": file.path,
                "contentUrl": file.path,
                "contentSize": f"{file.size} B",
                "encodingFormat": "application/x-parquet",
                "sha256": file.sha256,
            }
        yield {
            "@type": "cr:FileSet",
            "@id": f"{split}-files",
            "name": f"{split}-files",
            "encodingFormat": "application/x-parquet",
            # Not `*`: the files of another split may begin with this one's name.
            "includes": f"{_DATA}/{split}-{_FIVE}-of-{_FIVE}.parquet",
        }


def _record_sets(facts: Facts) -> list[dict[str, Any]]:
    """One of the splits, and one a split, with a field a column."""
    splits = {
        "@type": "cr:RecordSet",
        "@id": "splits",
        "name": "splits",
        "dataType": "cr:Split",
        "key": {"@id": "splits/name"},
        "field": [
            {"@type": "cr:Field", "@id": "splits/name", "dataType": "sc:Text"},
            {"@type": "cr:Field", "@id": "splits/url", "dataType": ["sc:URL", "wd:Q3985153"]},
        ],
        "data": [{"splits/name": split, "splits/url": _SPLITS.get(split, "")} for split in facts.files],
    }
    return [splits, *(_records(split) for split in facts.files)]


_IMAGES = "Images, one for each mark in the text."
_COLUMNS: tuple[tuple[str, str, str, str | None], ...] = (
    ("text", "sc:Text", "The text, with an <image> mark for each image.", None),
    ("images", "sc:ImageObject", _IMAGES, "bytes"),
    (OWN, "sc:Text", "JSON: source, segments, relations, layout, metadata and origins.", None),
)
"""(column, data type, description, what is taken of each entry of a list)"""


def _records(split: str) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": split,
        "name": split,
        "description": f"The rows of the split {split}.",
        "field": [_field(split, *column) for column in _COLUMNS],
    }


def _field(split: str, column: str, kind: str, description: str, part: str | None) -> dict[str, Any]:
    source: dict[str, Any] = {"fileSet": {"@id": f"{split}-files"}, "extract": {"column": column}}
    array = {}
    if part is not None:
        source["transform"] = {"jsonPath": part}
        array = {"repeated": True, "isArray": True, "arrayShape": "-1"}
    return {
        "@type": "cr:Field",
        "@id": f"{split}/{column}",
        "name": f"{split}/{column}",
        "description": description,
        "dataType": kind,
        **array,
        "source": source,
    }


def beside(facts: Facts) -> Mapping[str, bytes]:
    """croissant.json."""
    return {FILE: orjson.dumps(croissant(facts), option=orjson.OPT_INDENT_2) + b"\n"}


def _open(folder: Path, name: str) -> Writer:
    return ParquetWriter(folder, name)


FORMAT = Format(
    about="Parquet of the row schema, described by a Croissant 1.1 file",
    open=_open,
    name=f"{_DATA}/{{split}}-{{number:05d}}-of-{{count:05d}}.parquet",
    read='mlcroissant.Dataset("{path}/croissant.json").records("SPLIT")',
    beside=beside,
)
