"""A server that answers whatever a test wants, and a kubeconfig that leads to it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def odd_server(answer: Answer) -> AsyncIterator[str]:
    """The URL of a server while the context is open."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def write_kubeconfig(path: Path, server: str, **user: object) -> Path:
    """Write a kubeconfig whose only user has these fields."""
    named = {"name": "it"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{**named, "cluster": {"server": server}}],
        "users": [{**named, "user": user}],
        "contexts": [{**named, "context": {"cluster": "it", "user": "it"}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path
