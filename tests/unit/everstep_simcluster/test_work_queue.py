"""A controller's queue looks at each key once, and again when it is named again."""

import asyncio

from everstep_simcluster.work_queue import WorkQueue


def test_a_key_named_twice_is_looked_at_once() -> None:
    seen: list[str] = []
    queue: WorkQueue[str] = WorkQueue(seen.append)
    for key in ("a", "b", "a"):
        queue.add(key)
    queue.work_off()
    assert seen == ["a", "b"]


def test_a_key_named_while_it_is_looked_at_comes_again() -> None:
    seen: list[str] = []

    def look(key: str) -> None:
        seen.append(key)
        if len(seen) == 1:
            queue.add(key)

    queue: WorkQueue[str] = WorkQueue(look)
    queue.add("a")
    queue.work_off()
    assert seen == ["a", "a"]


async def test_a_running_queue_wakes_up_for_a_key() -> None:
    looked = asyncio.Event()
    queue: WorkQueue[str] = WorkQueue(lambda key: looked.set())
    running = asyncio.create_task(queue.run())
    queue.add("a")
    await asyncio.wait_for(looked.wait(), 5)
    running.cancel()
