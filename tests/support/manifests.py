"""What is in ``deploy/``: kustomizations resolved without kubectl, and objects by kind and name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonpatch
import yaml

Object = dict[str, Any]

ROOT = Path(__file__).parents[2]
KUSTOMIZATIONS = ROOT / "deploy" / "k8s"
OVERLAYS = ("observe", "act")
KNOWN = {"apiVersion", "kind", "resources", "images", "patches"}


def overlay(name: str) -> list[Object]:
    """The objects of an overlay."""
    return kustomized(KUSTOMIZATIONS / "overlays" / name)


def kustomized(folder: Path) -> list[Object]:
    """What ``kubectl kustomize`` makes of a folder, for the few fields that ours use."""
    asked = yaml.safe_load((folder / "kustomization.yaml").read_text())
    unknown = asked.keys() - KNOWN
    if unknown:
        raise ValueError(f"{folder}: {sorted(unknown)} is not understood here")
    objects: list[Object] = []
    for resource in asked["resources"]:
        path = folder / resource
        objects += kustomized(path) if path.is_dir() else loaded(path)
    for patch in asked.get("patches") or ():
        objects = [_patched(one, patch) for one in objects]
    for pod in pod_specs(objects):
        for container in pod["containers"]:
            container["image"] = _renamed(container["image"], asked.get("images") or ())
    return objects


def loaded(path: Path) -> list[Object]:
    """The objects in a file."""
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def of_kind(objects: list[Object], kind: str) -> dict[str, Object]:
    """The objects of a kind by name."""
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == kind}


def workloads(objects: list[Object]) -> dict[str, Object]:
    """Whatever has a pod template, by name."""
    return of_kind(objects, "Deployment") | of_kind(objects, "StatefulSet")


def pod_specs(objects: list[Object]) -> Iterator[Object]:
    """The pods' specs in workloads."""
    for one in workloads(objects).values():
        yield one["spec"]["template"]["spec"]


def _patched(one: Object, patch: Object) -> Object:
    target = patch["target"]
    if (one["kind"], one["metadata"]["name"]) != (target["kind"], target["name"]):
        return one
    changed: Object = jsonpatch.apply_patch(one, yaml.safe_load(patch["patch"]))
    return changed


def _renamed(image: str, renamings: Any) -> str:
    for one in renamings:
        if image == one["name"]:
            return f"{one['newName']}:{one['newTag']}"
    return image
