"""Volcano's own definitions of its kinds, for checking manifests against them."""

from typing import Any

import yaml
from support.manifests import ROOT, Object

DEFINITIONS = ROOT / "tests" / "contract" / "data" / "volcano-crds"


def volcano_schema(name: str, version: str) -> Object:
    """The schema of one version of a kind, closed: what it does not name is refused."""
    definition = yaml.safe_load((DEFINITIONS / f"{name}.yaml").read_text())
    (found,) = [one for one in definition["spec"]["versions"] if one["name"] == version]
    closed: Object = _close(found["schema"]["openAPIV3Schema"])
    closed["properties"]["metadata"] = {"type": "object"}
    return closed


def _close(node: Any) -> Any:
    """As the API server prunes: an object has the fields that are named, or any if none are."""
    if not isinstance(node, dict):
        return node
    kept = {name: _close(value) for name, value in node.items() if name != "properties"}
    if "properties" in node:
        kept["properties"] = {name: _close(value) for name, value in node["properties"].items()}
        kept.setdefault(
            "additionalProperties", node.get("x-kubernetes-preserve-unknown-fields", False)
        )
    if node.get("x-kubernetes-int-or-string"):
        kept.pop("type", None)
    return kept
