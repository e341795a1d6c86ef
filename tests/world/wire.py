"""A host for the controller's shell: a TCP server that takes the controller's requests and answers.

It is the fake world's broker behind a real socket, for tests of the shell alone.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from pathlib import Path
from typing import Any

from klamm.broker.metadata_cache import MetadataCache
from klamm.broker.net.peers import Peers
from klamm.broker.net.proof import ClusterSecret
from klamm.broker.roll_call_form import to_json
from klamm.broker.term.control_messages import error_code
from klamm.broker.term.controlling import ControllerShell
from klamm.controller.membership.roll_call import Holdings
from klamm.model.brokers import Endpoint, Registration
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId
from klamm.model.settings import BrokerSettings
from klamm.protocol import codec, private
from klamm.protocol.apis import ApiKey
from klamm.protocol.frames import encode_response_frame, parse_request_header
from klamm.protocol.messages import leader_and_isr, stop_replica, update_metadata
from klamm.protocol.private import PrivateKey
from klamm.store import layout
from klamm.store.port import Create, Session, Store


class WireBroker:
    """One broker: a registration, a socket, a shell."""

    def __init__(self, id: int, store: Store, data_dir: Path, settings: dict[str, str]) -> None:
        self.id = BrokerId(id)
        self.data_dir = data_dir
        self.settings = BrokerSettings.parse(settings)
        self.received: list[Any] = []
        self.leaders: dict[tuple[str, int], int] = {}  # what the metadata says
        self.logs: set[tuple[str, int]] = set()
        self.roles: dict[tuple[str, int], tuple[uuid.UUID, int]] = {}  # topic id, leader epoch
        self.changed = asyncio.Condition()
        self.refuse_deletes = ErrorCode.NONE
        self._store = store
        self._session: Session | None = None
        self._server: asyncio.Server | None = None
        self._peers: set[asyncio.StreamWriter] = set()
        self.cluster_id = ""
        self.secret = ClusterSecret(bytes(32))
        self.metadata = MetadataCache()
        self.peers = Peers(self, self.metadata)
        self.shell = ControllerShell(self)

    @property
    def session(self) -> Session:
        assert self._session is not None, "not started"
        return self._session

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def start(self) -> None:
        self._session = await self._store.connect()
        for path in layout.with_parents([*layout.ROOTS, layout.FORGOTTEN]):
            await self.session.multi([Create(path)])
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        broker = Registration(id=self.id, epoch=0, endpoints=(Endpoint("127.0.0.1", port),))
        data = layout.encode_broker(broker, timestamp_ms=self.now_ms())
        await self.session.multi([Create(layout.broker_path(self.id), data, ephemeral=True)])
        await self.shell.start()

    async def stop(self, *, resign: bool = True) -> None:
        await self.shell.stop(resign=resign)
        await self.session.close()
        assert self._server is not None, "not started"
        self._server.close()
        for writer in list(self._peers):
            writer.close()
        await self._server.wait_closed()

    async def wait_until(self, condition: Any, timeout_s: float = 10.0) -> None:
        async with asyncio.timeout(timeout_s), self.changed:
            await self.changed.wait_for(condition)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._peers.add(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = memoryview(await reader.readexactly(size))
                header = parse_request_header(frame)
                body = frame[header.body_offset :]
                if header.api_key == PrivateKey.ROLL_CALL:
                    encoded = private.encode({"error_code": 0, **to_json(self._holdings())})
                else:
                    request = codec.decode_request(header.api_key, header.api_version, body)
                    response = self._answer(ApiKey(header.api_key), request)
                    encoded = codec.encode_response(header.api_key, header.api_version, response)
                async with self.changed:
                    self.changed.notify_all()
                writer.write(encode_response_frame(header, encoded))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._peers.discard(writer)
            writer.close()

    def _answer(self, key: ApiKey, request: Any) -> Any:
        self.received.append(request)
        match key:
            case ApiKey.LEADER_AND_ISR:
                return self._become(request)
            case ApiKey.UPDATE_METADATA:
                for topic in request.topic_states:
                    for p in topic.partition_states:
                        if p.leader == -2:
                            self.leaders.pop((topic.topic_name, p.partition_index), None)
                        else:
                            self.leaders[topic.topic_name, p.partition_index] = p.leader
                return update_metadata.Response()
            case ApiKey.STOP_REPLICA:
                return self._stop(request)
            case _:
                raise AssertionError(key)

    def _holdings(self) -> Holdings:
        replicas: dict[uuid.UUID, dict[int, int]] = {}
        for (topic, index), (topic_id, epoch) in self.roles.items():
            if (topic, index) in self.logs:
                replicas.setdefault(topic_id, {})[index] = epoch
        return Holdings(replicas)

    def _become(self, request: Any) -> Any:
        topics = []
        for topic in request.topic_states:
            errors = []
            for p in topic.partition_states:
                self.logs.add((topic.topic_name, p.partition_index))
                role = (topic.topic_id, p.leader_epoch)
                self.roles[topic.topic_name, p.partition_index] = role
                errors.append(
                    leader_and_isr.LeaderAndIsrPartitionError(partition_index=p.partition_index)
                )
            topics.append(leader_and_isr.LeaderAndIsrTopicError(topic.topic_id, errors))
        return leader_and_isr.Response(topics=topics)

    def _stop(self, request: Any) -> Any:
        errors = []
        for topic in request.topic_states:
            for p in topic.partition_states:
                code = self.refuse_deletes if p.delete_partition else ErrorCode.NONE
                if p.delete_partition and code is ErrorCode.NONE:
                    self.logs.discard((topic.topic_name, p.partition_index))
                errors.append(
                    stop_replica.StopReplicaPartitionError(
                        topic.topic_name, p.partition_index, error_code(code)
                    )
                )
        return stop_replica.Response(partition_errors=errors)
