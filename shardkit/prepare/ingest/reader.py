"""How a worker gets at the bytes that records name, with every file noted that was read."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping

from shardkit.prepare.ingest.draft import ImageRef
from shardkit.prepare.ingest.reasons import Bad, plain
from shardkit.prepare.ingest.roots import FileRead, Roots, file_read, is_address, locate, missing, read_bounded
from shardkit.prepare.ingest.url_map import load_maps


class Reader:
    """Reads what the records of one chunk name.

    Attributes:
        files: every file that was read or found missing, by name.
    """

    def __init__(self, roots: Roots, url_maps: tuple[str, ...], max_bytes: int) -> None:
        self.files: dict[str, FileRead] = {}
        self._roots = roots
        self._max_bytes = max_bytes
        self._urls: Mapping[str, tuple[str, str]] = load_maps(url_maps) if url_maps else {}

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
        text, roots = ref.path, self._roots.of_input(folder)
        if ref.path in self._urls:
            map_folder, text = self._urls[ref.path]
            roots = (*self._roots.images, map_folder)
        elif is_address(ref.path):
            if ref.path.lower().startswith("file:"):
                raise Bad("path_outside", f"{plain(ref.path)} is an address of a file; give a path inside a root")
            raise Bad("asset_missing", f"no --url-map has a file for {plain(ref.path)}")
        try:
            path = locate(text, roots)
        except Bad:
            if not os.path.isabs(text):
                self._note(missing(text, folder))
            raise
        return self._read(path, text)

    def below_root(self, name: str) -> bytes:
        """The bytes of an input file by its name relative to the input root."""
        try:
            path = locate(name, (self._roots.input_root,))
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
    """Strict base64; line breaks are no part of it.

    Raises:
        Bad: where it is none.
    """
    try:
        return base64.b64decode(body.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise Bad("bad_data_uri", f"{plain(shown, 40)} is no base64") from None
