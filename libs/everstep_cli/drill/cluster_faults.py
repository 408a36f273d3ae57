"""Faults that come from Kubernetes, or in which its word and what is done to it matter."""

from typing import Final

from everstep_cli.drill.actions import (
    AwaitDismissal,
    AwaitNode,
    AwaitWrites,
    Hurt,
    LetTrain,
    StartApi,
    StopApi,
    Undo,
)
from everstep_cli.drill.fault import Fault, FaultName, OnCluster, stepping_without

CLUSTER_FAULTS: Final = (
    Fault(
        name=FaultName.NODE_NOTREADY,
        summary="a kubelet falls silent while training goes on",
        actions=(
            Hurt("stop_kubelet"),
            AwaitNode("Unknown"),
            AwaitDismissal(),
            LetTrain(20),
            Undo(),
            AwaitNode("True"),
            LetTrain(5),
        ),
        verdicts=(("tolerate",), ()),
        members_lost=0,
        last_outcome="dismissed",
        cluster=OnCluster(spares_budget=True),
    ),
    Fault(
        name=FaultName.PREEMPTED,
        summary="a pod of higher priority takes a node, and gives it back",
        actions=(Hurt("preempt"), stepping_without(1), Undo(), stepping_without(0)),
        verdicts=(("shrink", "grow"),),
        members_lost=0,
        cluster=OnCluster(spares_budget=True),
    ),
    Fault(
        name=FaultName.CORDONED_BY_ADMIN,
        summary="a node that an administrator cordoned loses its power",
        actions=(
            Hurt("power_off"),
            stepping_without(1),
            AwaitWrites(("taint", "force_delete_pod")),
            stepping_without(0),
            Undo(),
            AwaitWrites(("release",)),
        ),
        verdicts=(("shrink", "grow"),),
        members_lost=0,
        cluster=OnCluster(
            {"taint": 1, "delete_pod": 1, "force_delete_pod": 1, "release": 1},
            spares=1,
            node_left="cordoned_by_admin",
        ),
    ),
    Fault(
        name=FaultName.API_SERVER_DOWN,
        summary="the API server is gone while a node loses its power",
        actions=(
            StopApi(),
            Hurt("power_off", cordoned=False),
            stepping_without(1),
            LetTrain(5),
            StartApi(),
            AwaitWrites(("taint", "cordon", "force_delete_pod")),
            LetTrain(5),
        ),
        verdicts=(("shrink",),),
        members_lost=1,
        cluster=OnCluster(
            {"taint": 1, "cordon": 1, "delete_pod": 1, "force_delete_pod": 1},
            node_left="quarantined",
        ),
    ),
    Fault(
        name=FaultName.POD_DELETED,
        summary="a member's pod is deleted by hand",
        actions=(Hurt("delete_pod"), stepping_without(1), stepping_without(0)),
        verdicts=(("shrink", "grow"),),
        members_lost=0,
        cluster=OnCluster(spares_budget=True),
    ),
    Fault(
        name=FaultName.DRAINED,
        summary="an operator drains a member's node, and releases it",
        actions=(
            Hurt("drain"),
            stepping_without(1),
            stepping_without(0),
            Undo(),
        ),
        verdicts=(("shrink", "grow"),),
        members_lost=0,
        cluster=OnCluster(
            {"taint": 1, "cordon": 1, "evict": 1, "release": 1}, spares=1, spares_budget=True
        ),
    ),
)
