"""Text to documents: places, and one clear error for whatever is no manifest."""

import pytest
from everstep_preflight.catalogue import check, skipped
from everstep_preflight.errors import UnreadableError
from everstep_preflight.reading import read
from hypothesis import given
from hypothesis import strategies as st
from support.preflight import GOOD_JOB, pod_group, with_policies


def test_documents_know_their_lines() -> None:
    source = read("a.yaml", f"# said\n---\n{GOOD_JOB}---\n{pod_group('x')}")
    kinds = [document.get("kind") for document in source.documents]
    assert [kind.line for kind in kinds if kind] == [4, GOOD_JOB.count("\n") + 5]


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("a: [1, 2", "bad.yaml:1", "no YAML"),
        ("a:\n\tb: 1", "bad.yaml:2", "no YAML"),
        ("a: 1\nb\n", "bad.yaml:3", "could not find expected ':'"),
        ("a: !odd 1\n", "bad.yaml:1", "could not determine a constructor"),
        ("a: *nobody\n", "bad.yaml:1", "undefined alias"),
        ("a: &a [*a]\n", "bad.yaml:1", "stands inside what it refers to"),
        ("a: \0\n", "bad.yaml", "no YAML"),
        ("[" * 5000, "bad.yaml", "nested too deeply"),
        ("a: !!int six\n", "bad.yaml", "no YAML"),
        ("a: {{ .Values.a }}\n", "bad.yaml:1", "a template has to be rendered first"),
        ("{[1]: 2}\n", "bad.yaml:1", "unhashable"),
    ],
)
def test_what_is_no_manifest_is_one_clear_error(text: str, where: str, why: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read("bad.yaml", text)
    assert str(caught.value).startswith(f"{where}: ")
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_aliases_that_stand_for_millions_of_values_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(UnreadableError, match="its aliases stand for more than"):
        read("bomb.yaml", "\n".join(lines))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("apiVersion: v1\nkind: ConfigMap\n", "ConfigMap of v1"),
        ("apiVersion: batch/v1\nkind: Job\n", "Job of batch"),
        (
            "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n",
            "Job of batch.volcano.sh without a spec",
        ),
        ("apiVersion: batch.volcano.sh/v1alpha1\nkind: JobFlow\nspec: {}\n", "no rule is about it"),
        ("spec: {}\n", "an object without a kind"),
        ("- 1\n", "a list is no Kubernetes object"),
        ("words\n", "a string is no Kubernetes object"),
        ("kind: [a]\n", "an object without a kind"),
    ],
)
def test_what_no_rule_is_about_is_skipped_with_a_word(text: str, why: str) -> None:
    source = read("other.yaml", text)
    assert check([source]) == ()
    (skip,) = skipped([source])
    assert why in skip.why


@pytest.mark.parametrize("plain", ["6:8", "190:20:30", "2026-01-01", "1:2.5", "="])
def test_what_is_a_string_to_kubernetes_is_one_here(plain: str) -> None:
    value = read("a.yaml", f"a: {plain}\n").documents[0].get("a")
    assert value
    assert value.text() == plain


@pytest.mark.parametrize(("plain", "number"), [("8", 8), ("0444", 0o444), ("0x10", 16), ("-1", -1)])
def test_what_is_a_number_to_kubernetes_is_one_here(plain: str, number: int) -> None:
    value = read("a.yaml", f"a: {plain}\n").documents[0].get("a")
    assert value
    assert value.integer() == number


def test_empty_documents_between_others_do_not_matter() -> None:
    source = read("a.yaml", f"---\n---\n# nothing\n---\n{GOOD_JOB}---\n")
    assert (check([source]), skipped([source])) == ((), ())


def test_the_items_of_a_list_are_documents_of_their_own() -> None:
    job = with_policies("PodFailed -> RestartJob")
    items = "".join(
        "- " + text.replace("\n", "\n  ").rstrip(" ") for text in (job, pod_group("llama-pg"))
    )
    source = read("list.yaml", f"apiVersion: v1\nkind: List\nitems:\n{items}")
    found = [(finding.rule.id, finding.path) for finding in check([source])]
    assert found == [
        ("policy-ends-survivors", "items[0].spec.policies[0]"),
        ("podgroup-by-hand", "items[1]"),
    ]


def test_a_pod_that_something_made_is_not_looked_at_beside_it() -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, ownerReferences: [{kind: Job}]}\n"
    source = read("pods.yaml", f"{pod}spec: {{containers: [{{command: [torchrun, a.py]}}]}}\n")
    assert check([source]) == ()
    assert [skip.why for skip in skipped([source])] == ["Pod a: what makes it is to be looked at"]


def test_what_a_cronjob_makes_is_a_job_too() -> None:
    job = with_policies("PodFailed -> RestartJob")
    spec = job[job.index("spec:") :].replace("\n", "\n    ").rstrip(" ")
    head = "apiVersion: batch.volcano.sh/v1alpha1\nkind: CronJob\nmetadata: {name: nightly}\n"
    source = read("cron.yaml", f"{head}spec:\n  jobTemplate:\n    {spec}")
    (finding,) = check([source])
    assert finding.path == "spec.jobTemplate.spec.policies[0]"


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#\n \t0\0\ufeffé", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        source = read("any.yaml", text)
    except UnreadableError:
        return
    check([source])
