"""Settings about where a broker listens, and where others are sent to reach it."""

from __future__ import annotations

from typing import Final

from klamm.model.settings.definition import Definition, Dynamic, Kind, setting

LISTENERS: Final[tuple[Definition, ...]] = (
    setting(
        "listeners",
        Kind.STRING,
        "PLAINTEXT://:9092",
        "Addresses to listen on: NAME://host:port, separated by commas. An empty host means every "
        "address, port 0 any free port. In a cluster of one process, broker i uses port p + i. "
        "If not set, brokers listen on --host and --port.",
        dynamic=Dynamic.PER_BROKER,
    ),
    setting(
        "advertised.listeners",
        Kind.STRING,
        None,
        "Addresses that clients and brokers are told to use, by listener name; port 0 means the "
        "bound port. If not set: the address the broker listens on, or the machine's name where "
        "no host was given.",
        dynamic=Dynamic.PER_BROKER,
    ),
    setting(
        "listener.security.protocol.map",
        Kind.STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The protocol of each listener: NAME:PROTOCOL, with commas. Where it is set, only the "
        "names in it can be used.",
        dynamic=Dynamic.PER_BROKER,
    ),
    setting(
        "inter.broker.listener.name",
        Kind.STRING,
        None,
        "The listener that brokers use to reach each other.",
    ),
    setting(
        "security.inter.broker.protocol",
        Kind.STRING,
        "PLAINTEXT",
        "The same, chosen by protocol instead of by listener name.",
    ),
    setting(
        "control.plane.listener.name",
        Kind.STRING,
        None,
        "A separate listener for requests of the controller to brokers.",
    ),
    setting(
        "early.start.listeners",
        Kind.STRING,
        None,
        "Listeners that Kafka opens before its authorizer is ready. klamm opens all of them at "
        "once, when everything is.",
    ),
)
