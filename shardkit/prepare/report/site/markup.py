"""HTML of the report: every value is escaped here, and nowhere else is markup written.

Pages are whole by themselves: no scripts, no links to elsewhere; pictures are in them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:75rem;padding:0 1rem;color:#222;background:#fff}
nav a{margin-right:1rem}table{border-collapse:collapse;margin:.5rem 0 1.2rem}
td,th{border:1px solid #ccc;padding:.2rem .5rem;text-align:left;vertical-align:top}td.n{text-align:right}
.row{display:flex;flex-wrap:wrap;gap:.6rem;margin:.3rem 0 1.2rem}
.card{border:1px solid #ccc;border-radius:4px;padding:.4rem;width:14rem;overflow-wrap:anywhere;font-size:.85rem}
.card.gone{background:#f6f0ef}.card img{display:block;max-width:100%;margin-bottom:.3rem}
.note{color:#666}.bad{color:#a00}code{font-size:.85em}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}.card.gone{background:#2a2020}}
"""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


@dataclass(frozen=True, kw_only=True, slots=True)
class Html:
    """Markup; what is no Html is a value, and gets escaped."""

    text: str


def html(value: object) -> str:
    return value.text if isinstance(value, Html) else escape(str(value), quote=True)


def joined(parts: Iterable[Html]) -> Html:
    return Html(text="\n".join(part.text for part in parts))


def page(title: str, nav: Mapping[str, str], body: Iterable[Html]) -> bytes:
    """A whole page.

    Args:
        nav: file -> what it is called.
    """
    links = " ".join(f'<a href="{html(file)}">{html(name)}</a>' for file, name in nav.items())
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html(title)}</title><style>{_STYLE}</style></head>\n<body><nav>{links}</nav><h1>{html(title)}</h1>\n"
        f"{joined(body).text}\n</body></html>\n"
    )
    return text.encode("utf-8", "replace")


def heading(text: str) -> Html:
    return Html(text=f"<h2>{html(text)}</h2>")


def line(text: object, *, kind: str = "") -> Html:
    return Html(text=f'<p class="{html(kind)}">{html(text)}</p>')


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Numbers stand on the right."""
    cells = ["<tr>" + "".join(f"<th>{html(name)}</th>" for name in head) + "</tr>"]
    cells += ["<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows]
    return Html(text="<table>" + "\n".join(cells) + "</table>")


def _cell(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{html('' if value is None else value)}</td>"
    return f'<td class="n">{value:,}</td>' if isinstance(value, int) else f'<td class="n">{value:.4g}</td>'


def cards(items: Iterable[Html]) -> Html:
    return Html(text='<div class="row">' + "".join(item.text for item in items) + "</div>")


def card(*, pictures: Sequence[bytes | str], title: str, lines: Sequence[object], gone: bool = False) -> Html:
    """One example.

    Args:
        pictures: JPEG bytes, or why there is none.
    """
    shown = [
        f'<img alt="" src="data:image/jpeg;base64,{base64.b64encode(one).decode()}">'
        if isinstance(one, bytes)
        else f'<div class="note">{html(one)}</div>'
        for one in pictures
    ]
    rest = "".join(f"<div>{html(one)}</div>" for one in lines if one not in (None, ""))
    return Html(text=f'<div class="card{" gone" if gone else ""}">{"".join(shown)}<b>{html(title)}</b>{rest}</div>')


def excerpt(text: object, limit: int = 220) -> str:
    """The beginning of a text, on one line."""
    words = " ".join(str(text).split())
    return words if len(words) <= limit else words[: limit - 3] + "..."


def facts(values: Mapping[str, Any]) -> Html:
    return table(("", ""), values.items())
