"""Looking through an error to what it came from."""

from everstep_trainer.backend.errors import causes


def test_sees_causes_and_contexts() -> None:
    outer, cause, context = RuntimeError("outer"), OSError("cause"), KeyError("context")
    outer.__cause__, outer.__context__ = cause, context
    assert set(causes(outer)) == {outer, cause, context}


def test_sees_each_once_though_they_lead_back_to_each_other() -> None:
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__cause__, other.__cause__ = other, one
    assert list(causes(one)) == [one, other]
