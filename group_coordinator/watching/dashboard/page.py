"""The page itself: one HTML file, its style and its modules, for the server and for the report."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files

_STATIC = files("group_coordinator.watching.dashboard") / "static"
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def static_names() -> list[str]:
    """Return the files that the page needs besides itself."""
    return sorted(file.name for file in _STATIC.iterdir() if file.name.endswith(tuple(MEDIA_TYPES)))


def static_text(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")


def server_page() -> str:
    """Return the page, with its parts in files beside it."""
    modules = {
        f"dashboard/{name.removesuffix('.js')}": f"/static/{name}" for name in static_names() if name.endswith(".js")
    }
    # All at once, instead of each when the one that imports it has come.
    preloads = "\n".join(f'<link rel="modulepreload" href="{path}">' for path in modules.values())
    return _page(
        '<link rel="stylesheet" href="/static/style.css">', modules, icon="/static/icon.svg", preloads=preloads
    )


def report_page(data: str) -> str:
    """Return the page in one file. `data` is what `data.js` reads: HTML that holds the documents."""
    modules = {
        f"dashboard/{name.removesuffix('.js')}": _data_address(static_text(name), "text/javascript")
        for name in static_names()
        if name.endswith(".js")
    }
    style = f"<style>{static_text('style.css')}</style>"
    return _page(style, modules, icon=_data_address(static_text("icon.svg"), "image/svg+xml"), data=data)


def script_hashes(page: str) -> str:
    """Return the sources for a Content-Security-Policy: the scripts that are in the page itself."""
    sources, at = [], page.find("<script")
    while at >= 0:
        start = page.index(">", at) + 1
        end = page.index("</script>", start)
        digest = base64.b64encode(hashlib.sha256(page[start:end].encode()).digest()).decode()
        sources.append(f"'sha256-{digest}'")
        at = page.find("<script", end)
    return " ".join(sources)


def _page(style: str, modules: dict[str, str], *, icon: str, data: str = "", preloads: str = "") -> str:
    import_map = json.dumps({"imports": modules})
    return (
        static_text("index.html")
        .replace("<!-- style -->", f'<link rel="icon" href="{icon}">\n{style}')
        .replace("<!-- modules -->", f'<script type="importmap">{import_map}</script>\n{preloads}')
        .replace("<!-- data -->", data)
    )


def _data_address(text: str, media_type: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(text.encode()).decode()}"
