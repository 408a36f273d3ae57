"""What roles allow, and what was asked for, in words that can be compared."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from everstep_simcluster.audit import Call
from support.manifests import Object, of_kind


class Right(NamedTuple):
    """One verb on one resource, in a namespace or (empty) in all of them."""

    namespace: str
    group: str
    resource: str
    verb: str

    def covers(self, call: Call) -> bool:
        """Whether a request passes by it."""
        same = (self.group, self.resource, self.verb) == (call.group, call.resource, call.verb)
        return same and self.namespace in ("", call.namespace)


def rights_of(account: str, objects: list[Object]) -> set[Right]:
    """Everything that the account's bindings give it."""
    roles = of_kind(objects, "ClusterRole")
    return {
        right
        for kind in ("ClusterRoleBinding", "RoleBinding")
        for binding in of_kind(objects, kind).values()
        if any(subject["name"] == account for subject in binding["subjects"])
        for right in _of_role(
            roles[binding["roleRef"]["name"]], binding["metadata"].get("namespace", "")
        )
    }


def calls_of(account: str, calls: Iterable[Call]) -> set[Call]:
    """What a service asked for; it tells its account's name, and its version, as its agent."""
    return {call for call in calls if call.user_agent.partition("/")[0] == account}


def _of_role(role: Object, namespace: str) -> Iterator[Right]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield Right(namespace, group, resource, verb)
