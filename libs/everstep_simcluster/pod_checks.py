"""What is refused in a new Pod, so that nothing behind the API meets a pod it cannot read."""

from collections.abc import Iterator

from everstep_simcluster.api_errors import bad_request, invalid
from everstep_simcluster.resources import PODS, Object


def check_pod(body: Object) -> None:
    """Check the parts of a pod that the kubelet and the scheduler rely on.

    Raises:
        ApiError: 422 for what is missing or wrong, 400 for a value of the wrong type.
    """
    containers = (body.get("spec") or {}).get("containers") or []
    causes = [("FieldValueRequired", field, "Required value") for field in _missing(containers)]
    for index, container in enumerate(containers):
        where = f"spec.containers[{index}]"
        _check_texts(container, where)
        causes += [
            ("FieldValueInvalid", f"{where}.resources.limits[{name}]",
             f'Invalid value: "{amount}": must be an integer')
            for name, amount in _amounts(container)
            if not str(amount).isdecimal()
        ]  # fmt: skip
    if causes:
        raise invalid(PODS, body["metadata"]["name"], causes)


def _missing(containers: list[Object]) -> Iterator[str]:
    if not containers:
        yield "spec.containers"
    for index, container in enumerate(containers):
        if not container.get("name"):
            yield f"spec.containers[{index}].name"
        for number, entry in enumerate(container.get("env") or ()):
            if not entry.get("name"):
                yield f"spec.containers[{index}].env[{number}].name"


def _check_texts(container: Object, where: str) -> None:
    """A number where a text belongs, as YAML makes it of ``value: 8``, is the usual mistake."""
    for field in ("command", "args"):
        for word in container.get(field) or ():
            if not isinstance(word, str):
                raise _wrong_type(f"{where}.{field}", word)
    for entry in container.get("env") or ():
        if not isinstance(entry.get("value") or "", str):
            raise _wrong_type(f"{where}.env.value", entry["value"])


def _wrong_type(field: str, value: object) -> Exception:
    return bad_request(
        f'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal {value!r} into '
        f"field {field} of type string"
    )


def _amounts(container: Object) -> Iterator[tuple[str, object]]:
    """Extended resources, a GPU for example: those with a domain in their name."""
    for some in (container.get("resources") or {}).values():
        yield from ((name, amount) for name, amount in some.items() if "/" in name)
