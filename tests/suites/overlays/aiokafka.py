# What follows takes the place of the fixtures above: the broker runs already, without containers.


@pytest.fixture(scope="session")
def docker():
    return None


@pytest.fixture(scope="session")
def kafka_image(request):
    return request.config.getoption("--docker-image")


@pytest.fixture(scope="session")
def ssl_folder():
    return None


@pytest.fixture(scope="session")
def kafka_server():
    host, port = os.environ["KLAMM_AT"].rsplit(":", 1)
    return KafkaServer(host, int(port), None, None, None, None)


@pytest.fixture(scope="class")
def acl_manager():
    return None


@pytest.fixture(scope="class")
def kafka_config():
    return None


@pytest.fixture(scope="class")
def kerberos_utils():
    return None
