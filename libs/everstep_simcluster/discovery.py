"""What a client reads first: which groups, versions and kinds the server has."""

from everstep_simcluster.resources import RESOURCES, VERBS, Object, Resource

SERVER_VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.2+everstep-simcluster",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}

_GROUP_VERSIONS = sorted({(resource.group, resource.version) for resource in RESOURCES})
_SUBRESOURCE_VERBS = {"binding": ["create"], "eviction": ["create"], "log": ["get"]}
_SUBRESOURCE_KINDS = {
    "binding": {"kind": "Binding"},
    "eviction": {"kind": "Eviction", "group": "policy", "version": "v1"},
}


def discovery_document(path: str) -> Object | None:
    """The document under ``path``, or None where there is none."""
    return _DOCUMENTS.get(path.rstrip("/"))


def _api_versions() -> Object:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _group_list() -> Object:
    groups = [_group(group, version) for group, version in _GROUP_VERSIONS if group]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _group(group: str, version: str) -> Object:
    served = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [served], "preferredVersion": served}


def _resource_list(group: str, version: str) -> Object:
    entries: list[Object] = []
    for resource in RESOURCES:
        if (resource.group, resource.version) == (group, version):
            entries.append(_entry(resource))
            entries += [_subentry(resource, name) for name in resource.subresources]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": entries,
    }


def _entry(resource: Resource) -> Object:
    entry = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(VERBS),
    }
    return {**entry, "shortNames": list(resource.short_names)} if resource.short_names else entry


def _subentry(resource: Resource, name: str) -> Object:
    return {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        **_SUBRESOURCE_KINDS.get(name, {}),
        "verbs": _SUBRESOURCE_VERBS.get(name, ["get", "patch", "update"]),
    }


def _openapi_index() -> Object:
    paths = {
        prefix.lstrip("/"): {"serverRelativeURL": f"/openapi/v3{prefix}"}
        for prefix in (_prefix(group, version) for group, version in _GROUP_VERSIONS)
    }
    return {"paths": paths}


def _openapi_document(group: str, version: str) -> Object:
    """Just enough for kubectl to know that the server checks fields itself."""
    field_validation = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
    paths: Object = {}
    for resource in RESOURCES:
        if (resource.group, resource.version) == (group, version):
            kind = {"group": group, "version": version, "kind": resource.kind}
            place = "namespaces/{namespace}/" if resource.namespaced else ""
            paths[f"{_prefix(group, version)}/{place}{resource.plural}/{{name}}"] = {
                "patch": {
                    "parameters": [field_validation],
                    "x-kubernetes-group-version-kind": kind,
                    "responses": {"200": {"description": "OK"}},
                }
            }
    info = {"title": "Everstep simulated cluster", "version": SERVER_VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}


def _prefix(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


_DOCUMENTS: dict[str, Object] = {
    "/api": _api_versions(),
    "/apis": _group_list(),
    "/version": SERVER_VERSION,
    "/openapi/v3": _openapi_index(),
    **{f"/apis/{group}": {"kind": "APIGroup", "apiVersion": "v1", **_group(group, version)}
       for group, version in _GROUP_VERSIONS if group},
    **{_prefix(group, version): _resource_list(group, version)
       for group, version in _GROUP_VERSIONS},
    **{f"/openapi/v3{_prefix(group, version)}": _openapi_document(group, version)
       for group, version in _GROUP_VERSIONS},
}  # fmt: skip
