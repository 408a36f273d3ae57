"""The commands about nodes, typed by an operator at a real bus, of a rescaler at work."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from everstep_cli.nodes import who
from everstep_simcluster.cluster import Cluster
from support.nats_world import NatsWorld
from support.operators import CommandLine
from support.polling import eventually
from support.rescaling_scene import Scene
from support.service_processes import service_process, settings_of


@dataclass(frozen=True)
class Desk(CommandLine):
    """Where an operator sits."""

    world: NatsWorld
    scene: Scene


@pytest.fixture
async def desk(scene: Scene, cluster: Cluster, tmp_path: Path) -> AsyncIterator[Desk]:
    world = NatsWorld(tmp_path)
    await world.start()
    settings = {
        **settings_of("rescaler", world.server.url, world.credentials),
        "EVERSTEP_CLUSTER": "kubernetes",
        "EVERSTEP_KUBECONFIG_PATH": str(cluster.kubeconfig_path),
        "EVERSTEP_MODE": "act",
        "EVERSTEP_MAX_QUARANTINED_NODES": "1",
    }
    async with service_process("rescaler", settings, tmp_path / "rescaler") as rescaler:
        await eventually(rescaler.is_ready)
        await eventually(lambda: "lease taken" in rescaler.text)
        yield Desk(world.server.url, world.credentials, world, scene)
    await world.close()


@pytest.mark.slow
async def test_nodes_are_quarantined_listed_and_released_by_commands(desk: Desk) -> None:
    scene = desk.scene
    one, other = (each.node for each in scene.members[:2])
    said = await desk.said("quarantine", one, "--reason", "its fan rattles")
    assert said.startswith(f"{one} is cordoned and tainted (operator-")
    assert scene.cordoned(one)
    (listed,) = json.loads(await desk.said("nodes", "--json"))
    assert (listed["node"], listed["cause"], listed["by"]) == (one, "operator", who())
    assert listed["reason"] == "its fan rattles"
    refused = await desk.complaint("drain", other)
    assert refused.startswith("everstep: refused: 1 nodes are quarantined already")
    done = json.loads(await desk.said("release", one, "--json"))
    assert done["record"]["quarantined_by"] is None
    assert not scene.cordoned(one)
    again = await desk.complaint("release", one)
    assert again == f"everstep: refused: {one} is not quarantined by Everstep"


async def test_a_drain_is_awaited_and_says_what_it_waits_for(desk: Desk) -> None:
    scene, leaving = desk.scene, desk.scene.members[0]
    adjudicator = await desk.world.service("adjudicator")
    await scene.seat(3, *scene.members, min_member=3, bus=adjudicator)
    done = await desk.run("drain", leaving.node, "--timeout", "1.5")
    assert done.returncode == 1
    assert f"seated on it: training/train {leaving.name}" in done.stdout
    assert "waits for training/train to have more members" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("everstep: not drained after 1.5 s")
    await scene.seat(4, *scene.members, bus=adjudicator)
    drained = asyncio.create_task(desk.said("drain", leaving.node, "--reason", "DIMMs", "--json"))
    await eventually(lambda: scene.writes("POST", "/eviction") == 1)
    await scene.seat(5, *scene.members[1:], bus=adjudicator)
    assert json.loads(await drained)["drained"] is True
