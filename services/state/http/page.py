"""The web page: built files that ship with the package, the same for everybody. They hold no data, so no token guards them."""

import mimetypes
from pathlib import Path

from aiohttp import web

BUILT = Path(__file__).parent.parent / "page" / "built"
AT = "/page/"
# Nothing from anywhere else, nothing inline, nobody's frame.
SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
        "worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Page:
    """The built files, in memory."""

    def __init__(self, folder: Path = BUILT) -> None:
        """Read them; there are none in a checkout whose page was never built."""
        self._files = {path.name: path.read_bytes() for path in sorted(folder.glob("*"))} if folder.is_dir() else {}

    @property
    def is_built(self) -> bool:
        """Say whether there is a page."""
        return bool(self._files)

    def file(self, name: str) -> web.Response:
        """Return one of its files.

        Raises:
            web.HTTPNotFound: it has no such file.
        """
        body = self._files.get(name)
        if body is None:
            raise web.HTTPNotFound()
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        response = web.Response(body=body, content_type=kind, charset="utf-8" if kind.startswith("text/") else None)
        response.headers["Cache-Control"] = "no-cache"  # asked for again by each load, so that a new version shows at once
        response.enable_compression()
        return response
