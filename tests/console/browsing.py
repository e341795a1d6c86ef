"""What the tests in a browser share."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from klamm.client.aio.cluster import Client
from klamm.client.aio.groups import Groups
from klamm.cluster import Cluster
from klamm.model.names import TopicPartition


@contextmanager
def console_of(servers: str, *words: str) -> Iterator[str]:
    """The console of a cluster, and its address."""
    command = [sys.executable, "-m", "klamm", "console", "--port", "0", "-b", servers, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready console="), line
        yield line.strip().removeprefix("ready console=").rstrip("/")
    finally:
        process.terminate()
        process.wait(20)
        assert process.stdout is not None
        process.stdout.close()


def live(page: Any, url: str) -> Any:
    """Opens an address and waits until it is live."""
    page.goto(url)
    page.locator('.live[data-live="on"]').wait_for()
    return page


def asked(url: str) -> Any:
    """The JSON at an address."""
    with urllib.request.urlopen(url, timeout=20) as answer:
        return json.load(answer)


def acted(url: str, **deed: Any) -> Any:
    """Does something through its plan, as a page would."""
    jar = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with jar.open(url, timeout=20) as page:
        token = page.read().decode().split('name="klamm-token" content="')[1].split('"')[0]
    headers = {"x-klamm-token": token, "content-type": "application/json"}

    def post(path: str, body: Any) -> Any:
        request = urllib.request.Request(url + path, json.dumps(body).encode(), headers)
        with jar.open(request, timeout=60) as answer:
            return json.load(answer)

    planned = post("/api/plans", deed)
    typed = planned["plan"]["typed"]
    return post("/api/actions", {**deed, "digest": planned["digest"], "typed": typed})


def klamm(cluster: Cluster, *words: str, given: str = "") -> str:
    """Runs a command against a cluster; what it prints."""
    return klamm_at(cluster.bootstrap_servers, *words, given=given)


def klamm_at(servers: str, *words: str, given: str = "") -> str:
    """The same by its address."""
    command = [sys.executable, "-m", "klamm", *words, "-b", servers]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    return done.stdout


def commit(cluster: Cluster, group: str, topic: str) -> None:
    """Has a group without members stand at the beginning of a topic."""

    async def set_offsets() -> None:
        async with Client(cluster.bootstrap_servers) as client:
            picture = await client.refresh([topic])
            count = len(picture.topics[topic].partitions)
            wanted = {TopicPartition(topic, p): 0 for p in range(count)}
            await Groups(client).set_offsets(group, wanted)

    # The browser's driver has a loop of its own in this thread.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, set_offsets()).result()
