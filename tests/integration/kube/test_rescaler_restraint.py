"""What the rescaler leaves alone: writes that are refused, what others wrote, what has no room."""

import asyncio
from dataclasses import replace

from everstep_bus.background import background
from everstep_bus.errors import QueryRefusedError
from everstep_contract.facts.job import ClusterWritten
from everstep_contract.facts.node import NodeQuarantined
from everstep_contract.node_queries import QuarantineNode, ReleaseNode
from everstep_simcluster.misbehaviour import Refuse, Rule
from everstep_simcluster.patch import MERGE_PATCH, Patch
from everstep_simcluster.resources import NODES as KUBE_NODES
from everstep_simcluster.store import Ref
from support.polling import eventually
from support.rescaling_scene import OURS, POLICY, QUICK, Scene
from support.simcluster import phases, uids

LOOKS_SECONDS = 10 * POLICY.look_seconds


async def test_ec22_no_pod_is_deleted_while_the_quarantine_of_its_node_is_refused(
    scene: Scene,
) -> None:
    lost = scene.members[1]
    scene.cluster.faults.crash(lost.node)
    await eventually(lambda: phases(scene.cluster).get(lost.name) == "Failed")
    refusing = Rule(Refuse(403), method="PATCH", path="/nodes/", user_agent=OURS)
    scene.cluster.api.misbehaviour.add(refusing)
    await scene.rule(4, lost, "hardware_fault")
    await scene.rescaler()
    await eventually(lambda: ("taint", lost.node, "refused") in scene.told())
    told = [one.detail for one in scene.facts(ClusterWritten) if one.verb == "taint"]
    assert "kubectl apply -k deploy/k8s/overlays/act" in told[0]
    await asyncio.sleep(LOOKS_SECONDS)
    assert scene.writes("PATCH", f"/nodes/{lost.node}") == 1
    assert scene.writes("DELETE", "/pods/") == 0
    cordon = Patch(MERGE_PATCH, {"spec": {"unschedulable": True}})
    scene.cluster.objects.patch(KUBE_NODES, Ref("", lost.node), cordon)  # by a person's hand
    await eventually(lambda: ("delete_pod", lost.name, "done") in scene.told())


async def test_a_node_that_an_agent_only_names_is_never_blamed(scene: Scene) -> None:
    one, lost, other = scene.members
    innocent = one.node
    liar = lost.model_copy(update={"node": innocent})
    scene.members = (one, liar, other)
    await scene.rule(4, liar, "hardware_fault")
    await scene.rescaler()
    await eventually(lambda: ("taint", lost.node, "done") in scene.told())
    assert scene.writes("PATCH", f"/nodes/{innocent}") == 0


async def test_ec44_a_successor_without_room_is_left_waiting_and_nothing_is_tried_again(
    scene: Scene,
) -> None:
    lost = scene.members[1]
    scene.cluster.faults.crash(lost.node)
    await eventually(lambda: phases(scene.cluster).get(lost.name) == "Failed")
    await scene.rule(4, lost, "hardware_fault")
    await scene.rescaler()
    await eventually(lambda: phases(scene.cluster).get(lost.name) == "Pending")
    waiting, writes = uids(scene.cluster)[lost.name], scene.writes("DELETE", "/pods/")
    await asyncio.sleep(LOOKS_SECONDS)
    assert uids(scene.cluster)[lost.name] == waiting
    assert scene.writes("DELETE", "/pods/") == writes == 1


async def test_ec73_what_others_write_on_a_node_meanwhile_is_never_lost(scene: Scene) -> None:
    node, written = scene.members[0].node, 0
    ref = Ref("", node)

    async def keep_writing() -> None:
        nonlocal written
        while True:
            written += 1
            body = {"metadata": {"annotations": {f"other/owner-{written}": str(written)}}}
            scene.cluster.objects.patch(KUBE_NODES, ref, Patch(MERGE_PATCH, body))
            await asyncio.sleep(0.002)

    await scene.rescaler()
    done = refused = 0
    async with background(keep_writing()):
        while done < 5:
            for query in (
                QuarantineNode(node=node, reason="its fan rattles", by="ada"),
                ReleaseNode(node=node, reason="not so", by="ada"),
            ):
                try:
                    await scene.ask(query)
                    done += 1
                except QueryRefusedError:  # conflicts again and again: refused, not forced
                    refused += 1
                    assert refused < 100
    kept = scene.annotations(node)
    assert all(kept[f"other/owner-{one}"] == str(one) for one in range(1, written + 1))


async def test_who_observes_writes_nothing_through_a_nodes_whole_death_and_says_each_thing_once(
    scene: Scene,
) -> None:
    lost = scene.members[1]
    await scene.cluster.faults.power_off(lost.node)
    await scene.rule(4, lost, "connection_stale", "probe_silent")
    await scene.rescaler(replace(QUICK, act=False))
    await eventually(lambda: ("delete_pod", lost.name, "refused") in scene.told())
    await eventually(lambda: ("cordon", lost.node, "refused") in scene.told())
    await asyncio.sleep(LOOKS_SECONDS)
    scene.cluster.faults.power_on(lost.node)
    await asyncio.sleep(LOOKS_SECONDS)
    told = scene.told()
    assert sorted(told) == sorted(set(told))
    assert not scene.facts(NodeQuarantined)
    assert scene.writes("", "") == 0
    assert scene.said("default") == []
