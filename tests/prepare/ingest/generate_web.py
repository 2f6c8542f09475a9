"""Folders of Markdown and HTML as sites keep them: pages in folders, pictures beside them, one page broken."""

from __future__ import annotations

from pathlib import Path

from tests.prepare.ingest.builders import picture

BROKEN = "posts/page-07"
"""It is no UTF-8 and says nothing of its encoding."""
EXTENSIONS = {"markdown": ".md", "html": ".html"}

_MARKDOWN = """---
title: Page {n}
---
# Page {n}

Before &amp; *around* ![one {n}](../img/{n}.png "the title") after.

```html
<img src="no.png"> &amp;
```

- first
- second

<script>alert("no")</script>

![two](/img/shared.png)
"""
_HTML = """<!DOCTYPE html>
<html lang="en"><head><title>Page {n}</title><style>p {{ color: red }}</style></head>
<body><h1>Page {n}</h1>
<p>Before &amp; <em>around</em> <img src="../img/{n}.png" alt="one {n}" title="the title"> after.
<pre>&lt;img src="no.png"&gt; &amp;amp;
</pre>
<ul><li>first<li>second</ul>
<script>alert("<img src='no.png'>")</script>
<!-- a comment -->
<img src="/img/shared.png?size=2" alt=two>
"""


def write(folder: Path, kind: str, count: int = 20) -> None:
    """`count` pages, one of them broken."""
    (folder / "img").mkdir(parents=True)
    (folder / "posts").mkdir()
    (folder / "img" / "shared.png").write_bytes(picture(1000))
    for number in range(count):
        (folder / "img" / f"{number}.png").write_bytes(picture(number))
        page = (_MARKDOWN if kind == "markdown" else _HTML).format(n=number).encode()
        name = f"posts/page-{number:02d}"
        (folder / f"{name}{EXTENSIONS[kind]}").write_bytes(page + b"\xff\xfe" if name == BROKEN else page)
