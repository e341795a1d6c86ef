"""`klamm up --secure` as somebody at a terminal has it: files, commands, restarts, refusals."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from interop.process import Up, refused, up
from interop.test_secured import COMMANDS
from klamm.cli.__main__ import main

Say = Callable[..., str]
SMALL = ("--brokers", "1", "--port", "0")


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Say:
    """Run a command as one user; what it prints. It must end with `code`."""
    monkeypatch.delenv("KLAMM_BOOTSTRAP_SERVER", raising=False)

    def run(line: str, user: str = "admin", stdin: str = "", code: int = 0) -> str:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        config = tmp_path / "data" / "clients" / f"{user}.properties"
        monkeypatch.setenv("KLAMM_COMMAND_CONFIG", str(config))
        capfd.readouterr()
        ended = main(line.split())
        said = capfd.readouterr()
        assert ended == code, f"{line}: {ended}\n{said.out}{said.err}"
        return said.out + said.err

    return run


def stopped(running: Up) -> str:
    """Stop it, and what it had to say."""
    assert running.stop() == 0
    assert running.process.stderr is not None
    return running.process.stderr.read()


def password(data: Path, user: str) -> str:
    found = json.loads((data / "clients" / f"{user}.json").read_text())
    return str(found["confluent-kafka"]["sasl.password"])


def test_who_may_what_over_restarts(tmp_path: Path, say: Say) -> None:
    data = tmp_path / "data"
    args = (*SMALL, "--data", str(data))
    with up("--secure", *args, "--user", "alice", "--user", "bob:bobs own", "-v") as running:
        assert running.more["clients"] == str(data / "clients")
        for folder in ("clients", "security"):
            assert (data / folder).stat().st_mode & 0o777 == 0o700
            assert {p.stat().st_mode & 0o777 for p in (data / folder).iterdir()} == {0o600}
        secrets = [password(data, user) for user in ("admin", "alice", "bob")]
        assert secrets[2] == "bobs own"
        say("topics create orders -p 1 -r 1")
        say("produce orders", "alice", stdin="no\n", code=1)
        assert "TOPIC_AUTHORIZATION_FAILED" in say("topics describe orders", "alice", code=1)
        assert "may not write" in say("acls check alice write topic:orders", code=1)
        say("acls add alice produce topic:orders")
        say("acls add alice consume topic:orders group:billing")
        assert "may write" in say("acls check alice write topic:orders")
        say("produce orders", "alice", stdin="a coat\n")
        assert "a coat" in say("consume orders -n 1", "alice")
        say("acls add alice read topic:gone topic:orders")
        (orphan,) = say("acls list --orphaned").splitlines()[1:]
        assert orphan.split()[0] == "topic:gone"
        listed = [line.split()[0] for line in say("users list").splitlines()[1:]]
        assert listed == ["admin", "alice", "bob", "klamm-broker"]
        say("users remove bob")
        say("users password alice", stdin="changed\n")
        assert "refused to let us in" in say("topics list", "bob", code=1)
        assert "refused to let us in" in say("topics list", "alice", code=1)
        told = stopped(running)
        assert not any(secret in told for secret in (*secrets, "changed"))
    authority = (data / "clients" / "ca.pem").read_text()
    assert "belongs to a secured cluster: start it with --secure" in refused(*args)
    eve = refused("--secure", *args, "-X", "super.users=User:eve")
    assert "super.users is set by --secure" in eve
    with up("--secure", *args) as running:
        assert (data / "clients" / "ca.pem").read_text() == authority
        assert password(data, "admin") == secrets[0]
        assert "orders" in say("topics list")
        assert password(data, "alice") == secrets[1]
        assert not list((data / "clients").glob("bob.*"))
        told = stopped(running)
        assert "bob is no user of this cluster any more" in told
        assert "the password of alice was changed" in told
    with up("--secure", *args, "--user", "alice:third") as running:
        assert "a coat" in say("consume orders -n 1", "alice")


def test_every_command_works_with_the_file_alone(tmp_path: Path, say: Say) -> None:
    args = ("--brokers", "2", "--port", "0", "--data", str(tmp_path / "data"), "--processes")
    with up("--secure", *args) as running:
        config = tmp_path / "data" / "clients" / "admin.properties"
        for line in COMMANDS:
            where = ""
            if line.startswith("kafka-"):
                where = f" --bootstrap-server {running.bootstrap} --command-config {config}"
            say(line + where, stdin="one\ntwo\n")
        secrets = json.loads((tmp_path / "data" / "security" / "secrets.json").read_text())
        hidden = [*secrets["users"].values(), *secrets["drawn"].values()]
        seen = [
            path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if _is_there(path)
        ]
        assert any(b"klamm.cli" in line for line in seen)
        assert not any(secret.encode() in line for secret in hidden for line in seen)


def _is_there(path: Path) -> bool:
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def test_a_stranger_on_the_network_gets_nothing(tmp_path: Path) -> None:
    with up("--secure", *SMALL, "--ephemeral") as running:
        faults: list[object] = []
        for more in (
            {},
            {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"},
        ):
            admin = AdminClient(
                {"bootstrap.servers": running.bootstrap, "log_level": 0, **more}
                | {"error_cb": faults.append}
            )
            with pytest.raises(Exception, match=r"_TRANSPORT|_TIMED_OUT"):
                admin.list_topics(timeout=1)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--user", "alice"), "which takes --secure"),
        (("--secure", "--user", "../x"), "a user's name has up to 64 letters"),
        (("--secure", "--user", "klamm-broker"), "is the name of something else"),
        (("--secure", "-X", "listeners=PLAINTEXT://:0"), "listeners is set by --secure"),
    ],
)
def test_what_cannot_be_is_told(
    args: tuple[str, ...], says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", *SMALL, "--ephemeral", *args]) == 2
    assert says in capfd.readouterr().err
