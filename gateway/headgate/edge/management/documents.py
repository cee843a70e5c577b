"""The OpenAPI document at the management port: for programs, and for people to try."""

from aiohttp import web

from headgate.config.settings import HttpSettings
from headgate.edge.openapi.docs_pages import docs_file, docs_page


class DocumentPages:
    """For everybody. What describes the ports takes a MiB, and most parents are never asked."""

    def __init__(self, http: HttpSettings) -> None:
        self._http = http

    async def openapi(self, _request: web.Request) -> web.Response:
        """The description of both ports."""
        from headgate.edge.openapi.document import document

        return web.Response(body=document(self._http), content_type="application/json")

    async def page(self, _request: web.Request) -> web.StreamResponse:
        """What this port serves, for people."""
        return docs_page()

    async def file(self, request: web.Request) -> web.StreamResponse:
        """What that page is made of."""
        return docs_file(request.match_info["file"], self._own)

    def _own(self) -> bytes:
        from headgate.edge.openapi.document import MANAGEMENT_PORT, document_of

        return document_of(self._http, MANAGEMENT_PORT)
