"""The rescaler's cluster half against the simulated API server, through the real client."""

from contextlib import AsyncExitStack
from dataclasses import replace

from everstep_contract.facts.node import NodeQuarantined, NodeReleased
from everstep_contract.layout import NODES
from everstep_contract.names import encode_name
from everstep_simcluster.misbehaviour import Drop, Hang, Refuse, Rule
from everstep_simcluster.patch import MERGE_PATCH, Patch
from everstep_simcluster.resources import NODES as KUBE_NODES
from everstep_simcluster.store import Ref
from structlog.testing import capture_logs
from support.jobs import record
from support.polling import eventually
from support.rescaling_scene import JOB, OURS, POLICY, QUICK, Scene
from support.simcluster import phases, running, uids


async def test_r5_the_generation_is_written_on_the_job(scene: Scene) -> None:
    await scene.put(
        record(4, scene.members, job=JOB, job_uid=scene.members[0].job_uid, phase="resumed")
    )
    await scene.rescaler()
    await eventually(lambda: scene.generation() == "4")
    await eventually(lambda: ("annotate", "train", "done") in scene.told())
    assert scene.writes("PATCH", "/jobs/train") == 1


async def test_a_failed_pod_is_deleted_by_its_uid_and_volcano_makes_it_anew(scene: Scene) -> None:
    lost = scene.members[1]
    scene.cluster.faults.crash(lost.node)
    await eventually(lambda: phases(scene.cluster).get(lost.name) == "Failed")
    await scene.rule(4, lost, "probe_refused")
    await scene.rescaler()
    await scene.cluster.wait_for(running(scene.cluster, 3))
    await eventually(lambda: ("delete_pod", lost.name, "done") in scene.told())
    (write,) = scene.cluster.audit.matching(method="DELETE", user_agent=OURS)
    assert write.body["preconditions"] == {"uid": lost.pod_uid}
    assert scene.taints(lost.node) == set()


async def test_ec10_a_dead_machines_pod_is_forced_once_fenced_and_comes_back_with_capacity(
    scene: Scene,
) -> None:
    lost = scene.members[1]
    await scene.cluster.faults.power_off(lost.node)
    await scene.rule(4, lost, "connection_stale", "probe_silent")
    await scene.rescaler()
    await eventually(lambda: ("force_delete_pod", lost.name, "done") in scene.told())
    assert scene.told().index(("delete_pod", lost.name, "done")) < scene.told().index(
        ("force_delete_pod", lost.name, "done")
    )
    await eventually(lambda: phases(scene.cluster).get(lost.name) == "Pending")
    scene.cluster.faults.power_on(lost.node)
    await scene.cluster.wait_for(running(scene.cluster, 3))
    assert uids(scene.cluster)[lost.name] != lost.pod_uid


async def test_r23_a_frozen_member_that_thaws_soon_finds_its_node_free(scene: Scene) -> None:
    lost = scene.members[1]
    scene.cluster.faults.freeze(lost.node)
    await scene.rule(4, lost, "connection_stale", "probe_silent")
    await scene.rescaler()
    await eventually(lambda: scene.generation() == "4")
    scene.cluster.faults.thaw(lost.node)
    await scene.cluster.wait_for(running(scene.cluster, 3))
    assert scene.taints(lost.node) == set()
    assert not scene.cordoned(lost.node)


async def test_r23_a_long_silent_node_is_quarantined_and_released_when_it_is_well_again(
    scene: Scene,
) -> None:
    lost = scene.members[1]
    await scene.cluster.faults.power_off(lost.node)
    await scene.rule(4, lost, "connection_stale", "probe_silent")
    await scene.rescaler(QUICK)
    await eventually(lambda: scene.facts(NodeQuarantined))
    assert "everstep.dev/quarantined" in scene.taints(lost.node)
    assert scene.cordoned(lost.node)
    scene.cluster.faults.power_on(lost.node)
    await eventually(lambda: scene.facts(NodeReleased))
    assert "everstep.dev/quarantined" not in scene.taints(lost.node)
    assert not scene.cordoned(lost.node)
    assert ("release", lost.node, "done") in scene.told()


async def test_ec34_an_administrators_cordon_and_taint_outlive_our_quarantine(
    scene: Scene,
) -> None:
    lost = scene.members[1]
    theirs = {"key": "maintenance", "value": "disk", "effect": "NoSchedule"}
    spec = {"unschedulable": True, "taints": [theirs]}
    scene.cluster.objects.patch(KUBE_NODES, Ref("", lost.node), Patch(MERGE_PATCH, {"spec": spec}))
    await scene.cluster.faults.power_off(lost.node)
    await scene.rule(4, lost, "connection_stale", "probe_silent")
    await scene.rescaler(QUICK)
    await eventually(lambda: scene.facts(NodeQuarantined))
    scene.cluster.faults.power_on(lost.node)
    await eventually(lambda: scene.facts(NodeReleased))
    assert "everstep.dev/quarantined" not in scene.taints(lost.node)
    assert "maintenance" in scene.taints(lost.node)
    assert scene.cordoned(lost.node)


async def test_ec34_a_manual_uncordon_ends_the_quarantine_for_this_fault(scene: Scene) -> None:
    lost = scene.members[1]
    await scene.rule(4, lost, "hardware_fault")
    await scene.rescaler()
    await eventually(lambda: scene.facts(NodeQuarantined))
    uncordon = Patch(MERGE_PATCH, {"spec": {"unschedulable": None}})
    scene.cluster.objects.patch(KUBE_NODES, Ref("", lost.node), uncordon)
    await eventually(lambda: scene.facts(NodeReleased))
    await eventually(lambda: "everstep.dev/quarantined" not in scene.taints(lost.node))
    known = await scene.bus.kv(NODES).get(encode_name(lost.node))
    assert known is not None
    assert known.value is not None
    assert (known.value.quarantined_by, known.value.released_from) == (None, "incident-4")
    assert len(scene.facts(NodeQuarantined)) == 1


async def test_in_observe_mode_everything_is_told_and_nothing_written(scene: Scene) -> None:
    lost = scene.members[1]
    scene.cluster.faults.crash(lost.node)
    await eventually(lambda: phases(scene.cluster).get(lost.name) == "Failed")
    await scene.rule(4, lost, "hardware_fault")
    await scene.rescaler(replace(POLICY, act=False))
    await eventually(lambda: ("delete_pod", lost.name, "refused") in scene.told())
    assert set(scene.told()) == {
        ("annotate", "train", "refused"),
        ("taint", lost.node, "refused"),
        ("cordon", lost.node, "refused"),
        ("delete_pod", lost.name, "refused"),
    }
    assert scene.writes("", "") == 0


async def test_ec05_two_rescalers_and_a_slow_api_server_make_each_write_once(scene: Scene) -> None:
    lost = scene.members[1]
    scene.cluster.faults.crash(lost.node)
    await eventually(lambda: phases(scene.cluster).get(lost.name) == "Failed")
    slow = Hang(0.7)
    for method in ("PATCH", "DELETE"):
        scene.cluster.api.misbehaviour.add(Rule(slow, method=method, user_agent=OURS))
    await scene.rule(4, lost, "hardware_fault")
    await scene.rescaler(holder="one")
    await scene.rescaler(holder="two")
    await eventually(lambda: ("delete_pod", lost.name, "done") in scene.told())
    await scene.looked_again(lost, 5)
    assert scene.writes("DELETE", f"/pods/{lost.name}") == 1
    assert scene.writes("PATCH", f"/nodes/{lost.node}") == 1
    assert scene.writes("PATCH", "/jobs/train") == 3  # one a generation


async def test_ec48_a_deletion_whose_answer_was_lost_never_hits_the_successor(
    scene: Scene,
) -> None:
    lost = scene.members[1]
    scene.cluster.faults.crash(lost.node)
    await eventually(lambda: phases(scene.cluster).get(lost.name) == "Failed")
    unheard = Rule(Drop(applied=True), method="DELETE", user_agent=OURS, times=2)
    scene.cluster.api.misbehaviour.add(unheard)
    await scene.rule(4, lost, "probe_refused")
    await scene.rescaler()
    await eventually(lambda: any(verb == "delete_pod" for verb, _, _ in scene.told()))
    await scene.cluster.wait_for(running(scene.cluster, 3))
    successor = uids(scene.cluster)[lost.name]
    await scene.looked_again(lost, 5)
    assert uids(scene.cluster)[lost.name] == successor


async def test_a_rescaler_that_takes_over_goes_on_where_the_first_one_stopped(
    scene: Scene,
) -> None:
    lost = scene.members[1]
    async with AsyncExitStack() as first:
        scene.stack, kept = first, scene.stack
        await scene.rescaler(holder="one")
        await scene.rule(4, lost, "hardware_fault")
        await eventually(lambda: scene.facts(NodeQuarantined))
        scene.stack = kept
    await scene.rescaler(holder="two")
    await scene.rule(5, scene.members[1], "hardware_fault")
    await eventually(lambda: scene.generation() == "5")
    assert scene.writes("PATCH", f"/nodes/{lost.node}") == 1


async def test_what_cannot_be_read_for_long_is_logged_once(
    scene: Scene,
) -> None:
    misbehaviour = scene.cluster.api.misbehaviour
    misbehaviour.add(Rule(Refuse(403), method="GET", path="/jobs/", user_agent=OURS, times=5))
    with capture_logs() as logs:
        await scene.seat(3, *scene.members)
        await scene.rescaler()
        await eventually(lambda: scene.generation() == "3")
    said = [one for one in logs if one["event"] == "cluster not settled"]
    assert [one["what"] for one in said] == ["training/train"]
    assert "403" in said[0]["error"]
