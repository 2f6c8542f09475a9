"""How files of one stem are named where an image and its label do not simply share it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Naming:
    """What is no part of a stem. Followed only where no image and label share a stem as they stand."""

    folders: tuple[str, ...] = ()
    """Folders that part a set into pictures and labels."""
    folder_ends: tuple[str, ...] = ()
    """What such folders end with where their names begin with that of a part of the set, as in train_images, train_gts."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Folder -> the part of the set that it stands for, where names do not tell; empty for one that is no part."""
    label_starts: tuple[str, ...] = ()
    """What label names begin with."""
    label_ends: tuple[str, ...] = ()
    """What label names end with before their extension."""
    image_ends: tuple[str, ...] = ()
    """What the names of images end with before their extension."""
    passed_over: tuple[str, ...] = ()
    """Images whose stem ends so are not looked at."""
    whole: bool = False
    """Always followed: a label is a record by itself, under its full name, and finds its pictures by what it says."""

    def stem(self, stem: str, *, is_image: bool) -> str | None:
        """The stem that the file belongs to; None where it is passed over."""
        *folders, name = stem.split("/")
        part = ""
        for k in reversed(range(len(folders))):
            found = self._part(folders[k])
            if found is not None:
                part = found
                del folders[k]
                break
        if is_image:
            if name.endswith(self.passed_over):
                return None
            for end in self.image_ends:
                name = name.removesuffix(end)
        else:
            for start in self.label_starts:
                name = name.removeprefix(start)
            for end in self.label_ends:
                name = name.removesuffix(end)
        # A part of a set is no book: it parts equal names, and is no folder of the stem.
        return "/".join([*folders, f"{part}:{name}" if part else name])

    def _part(self, folder: str) -> str | None:
        """The part of the set that a folder of pictures or labels is of; None for another folder."""
        if folder in self.folders:
            return ""
        if folder in self.parts:
            return self.parts[folder]
        end = next((end for end in self.folder_ends if folder.lower().endswith(end)), None)
        return None if end is None else folder[: -len(end)]


PLAIN = Naming()

WHOLE = Naming(whole=True)
