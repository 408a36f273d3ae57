"""The body of an Event, as an API server admits it."""

from everstep_kube.events import About, Saying, event_body
from everstep_kube.loose import is_name
from support.jobs import NOW


def test_an_event_about_an_object_of_any_name_has_a_name_that_is_admitted() -> None:
    for length in range(198, 203):
        name = f"{'n' * (length - 1)}-{'n' * (252 - length)}x"
        for one in (name, name.replace("-", ".")):
            about = About("v1", "Node", "", one, "u")
            body = event_body(Saying(about, "EverstepReleased", "it is well", "i-1"), NOW)
            event = body["metadata"]["name"]
            assert is_name(event)
            assert not {".-", "-.", ".."} & {event[at : at + 2] for at in range(len(event))}
