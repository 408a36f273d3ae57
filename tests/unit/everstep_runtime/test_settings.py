"""Settings: what stops a start, and with which words."""

from pathlib import Path

import pytest
from everstep_runtime.errors import SettingsError
from everstep_runtime.settings import ServiceSettings, without_credentials


def test_variables_of_others_and_the_links_kubernetes_makes_are_left_alone() -> None:
    settings = ServiceSettings.parse(
        {
            "PATH": "/bin",
            "EVERSTEP_NATS_SERVICE_HOST": "10.0.0.1",
            "EVERSTEP_NATS_PORT": "tcp://10.0.0.1:4222",
            "EVERSTEP_NATS_PORT_4222_TCP_ADDR": "10.0.0.1",
            "EVERSTEP_NATS_SEED_PATH": "/run/seed",
        }
    )
    assert settings.nats_seed_path == Path("/run/seed")


def test_an_empty_value_leaves_the_default() -> None:
    assert ServiceSettings.parse({"EVERSTEP_METRICS_PORT": ""}).metrics_port == 9464


@pytest.mark.parametrize("value", ["8080", ""])
def test_a_misspelt_variable_is_named_with_its_value_and_the_nearest_name(value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        ServiceSettings.parse({"EVERSTEP_METRCS_PORT": value})
    assert f"EVERSTEP_METRCS_PORT={value!r}" in str(caught.value)
    assert "did you mean EVERSTEP_METRICS_PORT?" in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("EVERSTEP_METRICS_PORT", "99999"),
        ("EVERSTEP_METRICS_PORT", "http"),
        ("EVERSTEP_LOG_LEVEL", "loud"),
        ("EVERSTEP_NATS_URL", "not a url"),
        ("EVERSTEP_NATS_URL", "http://nats:4222"),
        ("EVERSTEP_NATS_URL", "nats://"),
        ("EVERSTEP_NATS_URL", "nats://nats:99999"),
        ("EVERSTEP_NATS_URL", "nats://nats:port"),
        ("EVERSTEP_NATS_URL", "nats://a:4222, nats://b:4222"),
    ],
)
def test_a_bad_value_is_named_with_its_variable(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"{variable}='{value}'"):
        ServiceSettings.parse({variable: value})


def test_a_wrong_setting_ends_the_start_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        ServiceSettings.from_env({"EVERSTEP_LOG_LEVEL": "loud"})
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_file_that_cannot_be_read_ends_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        ServiceSettings.from_env({"EVERSTEP_NATS_SEED_PATH": str(tmp_path / "none")})
    said = capsys.readouterr().err
    assert said == f"EVERSTEP_NATS_SEED_PATH='{tmp_path}/none': No such file or directory\n"


def test_several_servers_are_separated_by_commas() -> None:
    settings = ServiceSettings.parse({"EVERSTEP_NATS_URL": "nats://a:4222,tls://u:p@[::1]:1"})
    assert settings.nats_urls == ("nats://a:4222", "tls://u:p@[::1]:1")


def test_credentials_in_a_url_are_not_repeated_in_the_complaint() -> None:
    with pytest.raises(SettingsError) as caught:
        ServiceSettings.parse({"EVERSTEP_NATS_URL": "http://bob:hunter2@nats:4222"})
    assert "hunter2" not in str(caught.value)
    assert (
        without_credentials("to nats://bob:hunter2@nats:4222 now") == "to nats://***@nats:4222 now"
    )


def test_two_lives_of_a_process_have_two_names() -> None:
    assert ServiceSettings.parse({}).instance != ServiceSettings.parse({}).instance


def test_r5_two_processes_of_one_name_are_two_for_a_lease() -> None:
    one, other = (ServiceSettings.parse({"EVERSTEP_INSTANCE": "twin"}) for _ in range(2))
    assert one.instance.startswith("twin-")
    assert one.instance != other.instance
