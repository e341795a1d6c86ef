# What follows takes the place of the fixtures above: the broker runs already, without containers,
# and its tools are programs of this machine.


def _port(name):
    return int(os.environ[name].rsplit(":", 1)[1])


def _tool(name, *words):
    import shlex
    import subprocess

    line = [*shlex.split(os.environ["KLAMM_TOOLS"]), name]
    line += ["--bootstrap-server", os.environ["KLAMM_AT"]]
    for word in words:
        line += word.split(" ")
    done = subprocess.run(line, capture_output=True, env={"PATH": os.environ["PATH"]})
    if done.returncode != 0:
        raise RuntimeError((done.stdout + done.stderr).decode())
    return done.stdout


class _Acls(ACLManager):
    def _exec(self, *words):
        return _tool("kafka-acls", "--force", *words)


class _Configs(KafkaConfig):
    def _exec(self, *words):
        return _tool("kafka-configs", *words)


@pytest.fixture(scope="session")
def docker():
    return None


@pytest.fixture(scope="session")
def kafka_image(request):
    return request.config.getoption("--docker-image")


@pytest.fixture(scope="session")
def ssl_folder():
    return pathlib.Path(os.environ["KLAMM_CERTIFICATES"])


@pytest.fixture(scope="session")
def kafka_server():
    host = os.environ["KLAMM_AT"].rsplit(":", 1)[0]
    ports = map(_port, ("KLAMM_AT", "KLAMM_SSL", "KLAMM_SASL", "KLAMM_SASL_SSL"))
    return KafkaServer(host, *ports, None)


@pytest.fixture(scope="class")
def acl_manager():
    return _Acls(None, None)


@pytest.fixture(scope="class")
def kafka_config():
    return _Configs(None, None)


@pytest.fixture(scope="class")
def kerberos_utils():
    return None
