"""The shop's page and the service behind it, which sends what happens to Headgate.

    python -m examples.shop.web --where .shop/where.json

It writes to nothing but Headgate, and shows what the consumer made of it.
"""

import argparse
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web
from sqlalchemy.ext.asyncio import create_async_engine

from examples.shop import views
from examples.shop.where import Where, add_where, read_where
from headgate_client import AsyncClient, Event, Retry

PAGE = Path(__file__).with_name("page.html")
FIRST_OFFERS = {"tea": ("Green tea", 490), "mug": ("Blue mug", 1250), "pot": ("Tea pot", 3900)}
_PATIENCE = Retry(patience_s=20)  # somebody waits for the answer


class Shop:
    """Handlers of the page's requests. Each sends one event, and answers how it ended."""

    def __init__(self, where: Where) -> None:
        self._engine = create_async_engine(where.database)
        self._client = AsyncClient(where.gateway, producer="shop", retry=_PATIENCE)

    async def page(self, _request: web.Request) -> web.StreamResponse:
        return web.FileResponse(PAGE)

    async def state(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response(await views.shown(self._engine))

    async def put_offer(self, request: web.Request) -> web.StreamResponse:
        """Save an offer, changed or not: the gateway finds out."""
        asked = await _read(request, title=str, cents=int)
        return await self._send("shop-offers", {"offer": request.match_info["offer"], **asked})

    async def put_stock(self, request: web.Request) -> web.StreamResponse:
        asked = await _read(request, stock=int)
        return await self._send("shop-stock", {"offer": request.match_info["offer"], **asked})

    async def post_order(self, request: web.Request) -> web.StreamResponse:
        """Take an order. Its id is the page's: a second click sends the same one."""
        asked = await _read(request, order=str, offer=str, items=int)
        offer = await views.find_offer(self._engine, asked["offer"])
        if offer is None:
            raise web.HTTPNotFound(text=f"no offer {asked['offer']!r}")
        order = {**asked, "cents": offer["cents"]}
        return await self._send("shop-orders", Event(value=order, id=asked["order"]))

    async def _send(self, topic: str, event: object) -> web.StreamResponse:
        outcome = await self._client.send(topic, event)
        names = ("key", "partition", "offset", "reason", "detail")
        shown = {name: getattr(outcome, name, None) for name in names}
        page = {"outcome": outcome.name, "topic": topic, **shown}
        return web.json_response(page, status=200 if outcome.succeeded else 502)

    async def open_and_close(self, _app: web.Application) -> AsyncIterator[None]:
        """While the application runs: the tables are there, and the shop has something to sell."""
        await views.create(self._engine)
        for offer, (title, cents) in FIRST_OFFERS.items():
            if await views.find_offer(self._engine, offer) is None:
                value = {"offer": offer, "title": title, "cents": cents}
                (await self._client.send("shop-offers", value)).raise_for_outcome()
        yield
        await self._client.close()
        await self._engine.dispose()


async def _read(request: web.Request, **fields: type) -> dict[str, Any]:
    """Return these fields of the JSON body, and refuse any other body."""
    try:
        body = await request.json()
        asked = {name: body[name] for name in fields}
    except (ValueError, KeyError, TypeError) as error:
        raise web.HTTPBadRequest(text=f"JSON with {', '.join(fields)}, please") from error
    for name, kind in fields.items():
        if type(asked[name]) is not kind or (kind is int and not 0 <= asked[name] < 1_000_000):
            raise web.HTTPBadRequest(text=f"{name}: {asked[name]!r} is none")
    return asked


def application(where: Where) -> web.Application:
    """The page and its requests."""
    shop = Shop(where)
    app = web.Application()
    app.cleanup_ctx.append(shop.open_and_close)
    app.add_routes([
        web.get("/", shop.page),
        web.get("/state", shop.state),
        web.put("/offers/{offer}", shop.put_offer),
        web.put("/stock/{offer}", shop.put_stock),
        web.post("/orders", shop.post_order),
    ])  # fmt: skip
    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_where(parser)
    where = read_where(parser.parse_args())
    web.run_app(application(where), host="127.0.0.1", port=where.port, print=None)
