"""Dockerfile, compose file and their page hold to the commands, settings and files there are.

No engine is needed: every command is parsed by the command line itself, every setting checked as a
start checks it, and each name, port and path compared with the place where it is declared.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from klamm.app.server_properties import checked, gathered
from klamm.cli.__main__ import COMMANDS
from klamm.cli.options import parse_pairs
from klamm.cli.parsing.app import App
from klamm.security.listeners.config import listener_config
from klamm.start_check import heed_alone

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to" / "run-in-containers.md").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
BROKERS = sorted(name for name in SERVICES if name.startswith("broker-"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def instructions(name: str) -> list[str]:
    """What follows an instruction of the Dockerfile, wherever it stands."""
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)


def parsed(words: list[str]) -> dict[str, Any]:
    """The parameters that the command line reads from these words after `klamm`."""
    loaded = import_module(f"klamm.cli.{COMMANDS[words[0]].module}")
    apps = [made for made in vars(loaded).values() if isinstance(made, App)]
    for app in apps:
        if app.alone is None and words[1] in app.commands:
            return app.commands[words[1]].read(words[2:])
    (command,) = [app.alone for app in apps if app.alone]
    return command.read(words[1:])


def settings_of(broker: str) -> dict[str, str]:
    """All settings that the command of a broker gives."""
    values = parsed(shlex.split(SERVICES[broker]["command"]))
    named = {
        "broker.id": str(values["id"]),
        "listeners": values["listeners"],
        "zookeeper.connect": values["zookeeper"],
        "log.dirs": values["log_dirs"],
    }
    return gathered({}, named, parse_pairs(values["setting"], option="-X"))


def test_the_image_runs_klamm_and_takes_what_it_copies_from_the_checkout() -> None:
    assert json.loads(instructions("ENTRYPOINT")[0]) == ["klamm"]
    assert "klamm" in PROJECT["scripts"]
    values = parsed(json.loads(instructions("CMD")[0]))
    assert (values["host"], values["advertise"], str(values["data"])) == (
        "0.0.0.0",
        "localhost",
        "/data",
    )
    ports = range(9092, 9092 + values["brokers"])
    assert instructions("EXPOSE") == [" ".join(map(str, ports))]
    assert instructions("VOLUME") == ["/data"]
    copies = [line.split()[:-1] for line in instructions("COPY") if "--from" not in line]
    sources = [word for words in copies for word in words]
    assert [source for source in sources if not (ROOT / source).exists()] == []
    kept = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert sorted(kept) == sorted(sources)


def test_extras_are_those_of_the_project() -> None:
    chosen_extras = [*instructions("ARG"), f"EXTRAS={SERVICES['spark']['build']['args']['EXTRAS']}"]
    for line in chosen_extras:
        name, _, extras = line.partition("=")
        assert name == "EXTRAS"
        assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()


@pytest.mark.parametrize("broker", BROKERS)
def test_a_broker_can_start_like_this(broker: str, caplog: pytest.LogCaptureFixture) -> None:
    given = settings_of(broker)
    wishes = checked(given, Path("/"))
    assert (wishes.id, wishes.log_dirs) == (int(broker[-1]), ("/data",))
    assert heed_alone(given).idle == ()
    assert "no effect" not in caplog.text
    assert SERVICES[broker]["volumes"] == [f"{broker}:/data"]
    store, _, path = given["zookeeper.connect"].partition("/")
    assert store == "zookeeper:2181"
    assert path
    assert "zookeeper" in SERVICES[broker]["depends_on"]


@pytest.mark.parametrize("broker", BROKERS)
def test_every_caller_is_sent_where_it_can_go(broker: str) -> None:
    config = listener_config(settings_of(broker))
    listening = {end.name: end.port for end in config.listeners}
    told = {end.name: (end.host, end.port) for end in config.advertised}
    port = 9091 + int(broker[-1])
    assert told == {"INTERNAL": (broker, 29092), "CLIENTS": ("localhost", port)}
    assert listening == {"INTERNAL": 29092, "CLIENTS": port}
    assert SERVICES[broker]["ports"] == [f"127.0.0.1:{port}:{port}"]


def test_the_brokers_differ_in_their_numbers_alone() -> None:
    texts = {re.sub(r"(--id |broker-|:909)\d", r"\1N", SERVICES[b]["command"]) for b in BROKERS}
    assert len(texts) == 1
    assert len(BROKERS) == 3


def test_what_compose_names_is_declared() -> None:
    mounted = {v.split(":")[0] for service in SERVICES.values() for v in service.get("volumes", ())}
    assert mounted == COMPOSE["volumes"].keys()
    check = SERVICES["broker-1"]["healthcheck"]["test"]
    assert check[:2] == ["CMD", "klamm"]
    assert parsed(check[2:])["bootstrap_server"].servers == "localhost:29092"
    spark = SERVICES["spark"]
    servers = spark["environment"]["KLAMM_BOOTSTRAP_SERVER"]
    assert servers == ",".join(f"{broker}:29092" for broker in BROKERS)
    parsed(shlex.split(spark["command"]))


def typed_lines() -> list[str]:
    text = "\n".join((PAGE, (ROOT / "compose.yaml").read_text(), DOCKERFILE))
    return re.findall(r"^#? *(docker .*)$", text, re.MULTILINE)


@pytest.mark.parametrize("line", typed_lines())
def test_lines_of_docker_name_services_and_commands_that_exist(line: str) -> None:
    words = shlex.split(line)
    named = [word for word in words if word == "spark" or re.fullmatch(r"broker-\d", word)]
    assert set(named) <= SERVICES.keys()
    if "klamm" in words[words.index("docker") + 2 :] and words[1] == "compose":
        parsed(words[words.index("klamm") + 1 :])
    elif "run" in words and "spark" in words:
        values = parsed(words[words.index("spark") + 1 :])
        (mount,) = SERVICES["spark"]["volumes"]
        assert str(values["to"]).startswith(mount.split(":")[1])
    elif words[1] == "run":
        assert words[words.index("klamm") + 1 :] in ([], ["--help"])


def test_the_page_gives_the_addresses_of_the_compose_file() -> None:
    assert SERVICES["spark"]["environment"]["KLAMM_BOOTSTRAP_SERVER"] in PAGE
    assert ",".join(f"localhost:909{n}" for n in (2, 3, 4)) in PAGE
