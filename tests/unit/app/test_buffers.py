from __future__ import annotations

import subprocess
import sys


def test_a_process_of_brokers_takes_64_kb_for_a_connection_with_tls() -> None:
    code = (
        "from asyncio.sslproto import SSLProtocol\n"
        "from klamm.app.one_broker import buffer_less\n"
        "before = SSLProtocol.max_size\n"
        "buffer_less()\n"
        "print(before, SSLProtocol.max_size)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["262144", "65536"]
