"""Why a record is left out: the closed table of reason codes, and how a detail is put into words."""

from __future__ import annotations

from shardkit.media.reasons import REASONS as MEDIA_REASONS
from shardkit.text.excerpt import excerpt

REASONS = {
    # The record's own form
    "invalid_utf8": "bytes that are no UTF-8",
    "invalid_json": "not one JSON value",
    "not_an_object": "a JSON value that is no object",
    "duplicate_key": "an object names a key twice",
    "control_character": "a raw control character inside a JSON string",
    "non_finite_number": "NaN, Infinity or a number beyond the double range",
    "too_deep": "values nested deeper than the limit",
    "invalid_xml": "not well-formed XML",
    "bad_encoding": "bytes that are not of the encoding that the file states, or an encoding that is not known",
    "document_type": "an XML document type with an internal subset",
    "too_many_elements": "more XML elements than the limit",
    "line_too_long": "a line or table record longer than the limit",
    "cut_off": "the record is cut off at the end of its input",
    "damaged_input": "the rest of an input that is damaged from here on",
    "bad_quoting": "a table record whose quotation marks do not close",
    "field_count": "a table record with more or fewer fields than the header",
    "missing_field": "a field that the format needs is absent",
    "wrong_type": "a field holds another type than the format says",
    # Texts and labels
    "empty_text": "the text is empty or blank",
    "null_text": "the text is null",
    "missing_label": "an image without a text or label",
    "ambiguous_label": "labels of one image that disagree",
    "bad_label": "a label file that is not what its format says",
    "layout_without_text": "a layout that has lines and not one word",
    "label_pages": "a label with another number of pages than its image file",
    "no_content": "neither text nor image is left",
    "unknown_role": "a turn of nobody that is known",
    "turn_order": "turns in an order that no dialogue has",
    "empty_turn": "a turn without content",
    "no_answer": "a dialogue without an answer to learn from",
    # How images belong to the record
    "placeholder_count": "the number of <image> marks is not that of the images",
    "no_image": "a record that must have an image names none",
    "ambiguous_image": "several image files for one label",
    "image_value": "an image entry that is neither path, address, bytes nor an object of these",
    "image_sizes_count": "image_sizes has another length than images",
    "image_sizes_wrong": "image_sizes is not the size of the image",
    "image_labels": "ocr_labels or reading_order that do not fit the images",
    "slot_count": "images and texts of a document have different lengths",
    "slot_value": "a place of a document with both image and text, or with neither",
    "own_object": "`_shardkit` of an exported row is not what export writes, or contradicts the row",
    # Files and members
    "asset_missing": "the image file, member or address is not there",
    "path_outside": "a path that leads out of the roots",
    "asset_unreadable": "no permission to read the image file",
    "asset_folder": "the image path is a folder",
    "asset_loop": "the image path is a link that leads to itself",
    "asset_special": "the image path is a device, pipe or socket",
    "asset_io": "reading the image file failed",
    "bad_data_uri": "a data: address that holds no image bytes",
    "unsafe_member": "an archive member that is a link, a device, or named outside the archive",
    "duplicate_member": "two archive members of one name",
    # What the bytes of an image are
    **MEDIA_REASONS,
}
"""Code -> what it says of the record. A new reason is one line here."""

_LONGEST = 200


def plain(text: str, limit: int = 60) -> str:
    """What a dump says, as it may stand in a message."""
    return excerpt(text, limit)


def sentence(text: str) -> str:
    """A detail of at most 200 bytes of UTF-8, without control characters."""
    short = plain(text, _LONGEST)
    data = short.encode()
    return short if len(data) <= _LONGEST else data[: _LONGEST - 3].decode(errors="ignore") + "..."


class Bad(Exception):  # noqa: N818 - a finding about the data, not an error of the program
    """A record, or a file that it names, cannot be used: `reason` is a code of REASONS, `detail` a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        assert reason in REASONS, reason
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
