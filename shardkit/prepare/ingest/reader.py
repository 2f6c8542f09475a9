"""How a worker gets at the bytes that records name, with every file noted that was read."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
from collections.abc import Mapping, Sequence

from shardkit.prepare.ingest.draft import ImageRef
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.prepare.ingest.roots import (
    FileRead,
    Roots,
    file_read,
    is_address,
    locate,
    locate_address,
    missing,
    open_input,
    read_bounded,
)
from shardkit.prepare.ingest.url_map import Place, load_maps

_OF_ADDRESSES = str.maketrans("-_", "+/")
_FETCHED = ("http://", "https://", "//")
"""How an address begins that a downloader can follow."""


class Reader:
    """Reads what the records of one chunk name.

    Attributes:
        files: every file that was read or found missing, by name.
    """

    def __init__(self, roots: Roots, url_maps: tuple[str, ...], max_bytes: int) -> None:
        self.files: dict[str, FileRead] = {}
        self._roots = roots
        self._max_bytes = max_bytes
        self._urls: Mapping[str, Place] = load_maps(url_maps) if url_maps else {}
        self._folders: dict[str, str] = {}
        self._reasons: dict[tuple[str, str], str] = {}
        """(path, folder) of images that were asked for -> why there was none, or nothing."""

    def image(self, ref: ImageRef, folder: str) -> bytes:
        """The bytes of an image.

        Args:
            folder: of the input, relative to the input root.

        Raises:
            Bad: with the cause.
        """
        if ref.data is not None:
            return ref.data
        if ref.path.startswith("data:"):
            return data_uri(ref.path)
        try:
            data = self._named(ref, folder)
        except Bad as bad:
            self._reasons[ref.path, folder] = bad.reason
            raise
        self._reasons[ref.path, folder] = ""
        return data

    def _named(self, ref: ImageRef, folder: str) -> bytes:
        text, roots = ref.path, self._roots.of_input(folder)
        if ref.path in self._urls:
            place = self._urls[ref.path]
            if place.offset >= 0:
                return self._member(place)
            text, roots = place.file, (*self._roots.images, place.folder)
        elif is_address(ref.path):
            return self._of_address(ref.path, folder)
        try:
            path = _located(text, roots, self._folders, shorten=ref.shorten)
        except Bad:
            if not os.path.isabs(text):
                self._note(missing(text, folder))
            raise
        return self._read(path, text)

    def _of_address(self, address: str, folder: str) -> bytes:
        if address.lower().startswith("file:"):
            raise Bad("path_outside", f"{plain(address)} is an address of a file; give a path inside a root")
        path = locate_address(address, (*self._roots.of_input(folder), *self._roots.maps))
        if path is None:
            self._note(missing(address, folder))
            raise Bad("asset_missing", f"no --url-map has a file for {plain(address)}")
        return self._read(path, address)

    def _member(self, place: Place) -> bytes:
        """The bytes of a member of a tar of pictures; the tar itself is compared as an input."""
        if place.size > self._max_bytes:
            raise Bad(
                "too_many_bytes", f"a member of {place.file} has {place.size} bytes, the limit is {self._max_bytes}"
            )
        with open_input(os.path.join(place.folder, place.file), place.file) as handle:
            handle.seek(place.offset)
            data = handle.read(place.size)
        if len(data) < place.size:
            raise Bad("asset_io", f"{place.file} became shorter while it was read")
        return data

    def missing_addresses(self, refs: Sequence[ImageRef], folder: str) -> list[str]:
        """The addresses among `refs` for which there is no file, each once, in order.

        Args:
            folder: of the input, relative to the input root.
        """
        found: dict[str, None] = {}
        for ref in refs:
            address = ref.path if is_address(ref.path) else ref.origin
            if ref.data is None and address is not None and address.lower().startswith(_FETCHED):
                if (ref.path, folder) not in self._reasons:
                    with contextlib.suppress(Bad):  # noted
                        self.image(ref, folder)
                if self._reasons.get((ref.path, folder)) == "asset_missing":
                    found[address] = None
        return list(found)

    def first_of(self, texts: Sequence[str], folder: str) -> str:
        """The first of several paths and addresses under which an image lies; the first of all where none does.

        Args:
            folder: of the input, relative to the input root.
        """
        found = self.first_there(texts, folder)
        return texts[0] if found is None else found

    def is_mapped(self, address: str) -> bool:
        """Whether a map says where the picture of an address lies."""
        return address in self._urls

    def first_there(self, texts: Sequence[str], folder: str) -> str | None:
        """The first of several paths and addresses under which an image lies; None where none does.

        Args:
            folder: of the input, relative to the input root.
        """
        for text in texts:
            if text in self._urls:
                return text
            if is_address(text):
                if locate_address(text, (*self._roots.of_input(folder), *self._roots.maps)) is not None:
                    return text
                continue
            try:
                locate(text, self._roots.of_input(folder), self._folders)
            except Bad as bad:
                if bad.reason != "path_outside" and not os.path.isabs(text):
                    self._note(missing(text, folder))
                continue
            return text
        return None

    def folder_name(self, folder: str) -> str:
        """What the folder of an input is called, by its path relative to the input root."""
        return os.path.basename(os.path.join(self._roots.input_root, folder).rstrip("/"))

    def below_root(self, name: str) -> bytes:
        """The bytes of an input file by its name relative to the input root."""
        try:
            path = locate(name, (self._roots.input_root,), self._folders)
        except Bad:
            self.unread(name)
            raise
        return self._read(path, name)

    def unread(self, name: str) -> None:
        """Note that the input file `name` was met and not read."""
        path = os.path.join(self._roots.input_root, name)
        size = os.path.getsize(path) if os.path.exists(path) else -1
        self._note(FileRead(name=name, size=size, xxh3=""))

    def _read(self, path: str, shown: str) -> bytes:
        name = self._roots.name(path)
        try:
            data = read_bounded(path, self._max_bytes, shown)
        except Bad:
            self._note(FileRead(name=name, size=os.path.getsize(path) if os.path.exists(path) else -1, xxh3=""))
            raise
        self.files[name] = file_read(name, data)
        return data

    def _note(self, file: FileRead) -> None:
        self.files.setdefault(file.name, file)


def _located(text: str, roots: tuple[str, ...], folders: dict[str, str], *, shorten: bool) -> str:
    """`locate`, of `text` or else of the longest of its ends that names a file."""
    try:
        return locate(text, roots, folders)
    except Bad as bad:
        parts = text.replace("\\", "/").split("/")
        if not shorten or bad.reason not in ("asset_missing", "path_outside"):
            raise
        for first in range(1, len(parts)):
            try:
                return locate("/".join(parts[first:]), roots, folders)
            except Bad as shorter:
                if shorter.reason not in ("asset_missing", "path_outside"):
                    raise
        raise


def data_uri(text: str) -> bytes:
    """The bytes of a base64 `data:image/...` address.

    Raises:
        Bad: where it holds none.
    """
    head, comma, body = text.partition(",")
    if not comma or not head.endswith(";base64") or not body:
        raise Bad("bad_data_uri", f"{plain(text, 40)} holds no base64 image")
    return from_base64(body, text)


def from_base64(body: str, shown: str) -> bytes:
    """Strict base64, also of the alphabet for addresses; line breaks are no part of it.

    Raises:
        Bad: where it is none.
    """
    try:
        return base64.b64decode(body.translate(_OF_ADDRESSES).encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise Bad("bad_data_uri", f"{plain(shown, 40)} is no base64") from None
