"""librdkafka's mock cluster, until stdin ends; a line `NAME COUNT` makes a topic."""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_char_p, c_int, c_size_t, c_void_p
from importlib.metadata import files
from pathlib import Path


def main() -> None:
    import confluent_kafka  # noqa: F401 - loads the library with what it needs

    found = [file for file in files("confluent-kafka") or () if file.name.startswith("librdkafka-")]
    library = ctypes.CDLL(str(Path(str(found[0].locate()))))
    for name, result, arguments in (
        ("conf_new", c_void_p, []),
        ("new", c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
        ("mock_cluster_new", c_void_p, [c_void_p, c_int]),
        ("mock_cluster_bootstraps", c_char_p, [c_void_p]),
        ("mock_topic_create", c_int, [c_void_p, c_char_p, c_int, c_int]),
    ):
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    error = ctypes.create_string_buffer(512)
    handle = library.rd_kafka_new(0, library.rd_kafka_conf_new(), error, 512)
    assert handle, error.value.decode()
    cluster = library.rd_kafka_mock_cluster_new(handle, 3)
    bootstrap = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()
    print(f"ready bootstrap={bootstrap}", flush=True)
    for line in sys.stdin:
        name, count = line.split()
        fault = library.rd_kafka_mock_topic_create(cluster, name.encode(), int(count), 1)
        print("refused" if fault else "made", flush=True)


if __name__ == "__main__":
    main()
