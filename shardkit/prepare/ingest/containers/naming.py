"""How files of one stem are named where an image and its label do not simply share it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Naming:
    """What is no part of a stem. Followed only where no image and label share a stem as they stand."""

    folders: tuple[str, ...] = ()
    """Folders that part a set into pictures and labels."""
    label_starts: tuple[str, ...] = ()
    """What label names begin with."""
    image_ends: tuple[str, ...] = ()
    """What the names of images end with before their extension."""
    passed_over: tuple[str, ...] = ()
    """Images whose stem ends so are not looked at."""
    whole: bool = False
    """Always followed: a label is a record by itself, under its full name, and finds its pictures by what it says."""

    def stem(self, stem: str, *, is_image: bool) -> str | None:
        """The stem that the file belongs to; None where it is passed over."""
        *folders, name = stem.split("/")
        for k in reversed(range(len(folders))):
            if folders[k] in self.folders:
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
        return "/".join([*folders, name])


PLAIN = Naming()

WHOLE = Naming(whole=True)
