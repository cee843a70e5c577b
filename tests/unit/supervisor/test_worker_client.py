"""The parent's client of a worker says in words why the worker does not answer."""

import asyncio
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from headgate.supervisor.control import WorkerClient, WorkerUnreachableError


async def refusal(socket: Path) -> str:
    client = WorkerClient(socket)
    try:
        with pytest.raises(WorkerUnreachableError) as caught:
            await client._call("GET", "/state", within=aiohttp.ClientTimeout(total=0.05))
    finally:
        await client.close()
    return str(caught.value)


async def test_a_worker_without_a_socket(tmp_path: Path) -> None:
    assert await refusal(tmp_path / "socket") == "the socket does not exist"


async def test_a_worker_that_is_silent(tmp_path: Path) -> None:
    async def silent(_: web.Request) -> web.Response:
        await asyncio.sleep(1)
        return web.Response()

    app = web.Application()
    app.router.add_get("/state", silent)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.UnixSite(runner, str(tmp_path / "socket")).start()
        assert await refusal(tmp_path / "socket") == "nothing came in 0.05 s"
    finally:
        await runner.cleanup()
