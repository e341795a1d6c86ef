"""Writes the Grafana dashboard and the alert rules in docs/monitoring/.

    python tools/generate_dashboard.py            # write them
    python tools/generate_dashboard.py --check    # fail where they are stale

Both come from the tables below, so that a test can hold every query to the metrics that a broker
really has.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

HERE: Final = Path(__file__).parents[1] / "docs" / "monitoring"
DASHBOARD: Final = HERE / "klamm-dashboard.json"
ALERTS: Final = HERE / "klamm-alerts.yml"
WIDTH: Final = 8
HEIGHT: Final = 7
COLUMNS: Final = 3


class Panel(NamedTuple):
    """One picture: a title, its unit, and its queries with their legends."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    kind: str = "timeseries"


class Alert(NamedTuple):
    """One rule: when, for how long, how bad, and what to do."""

    name: str
    when: str
    minutes: int
    severity: str
    summary: str


_RATE: Final = "[$__rate_interval]"
PANELS: Final = (
    Panel(
        "Brokers up",
        "short",
        (("max(klamm_controller_active_broker_count)", ""),),
        "stat",
    ),
    Panel("Controllers", "short", (("sum(klamm_controller_active_controller_count)", ""),), "stat"),
    Panel(
        "Offline partitions",
        "short",
        (("sum(klamm_controller_offline_partitions_count)", ""),),
        "stat",
    ),
    Panel(
        "Partitions that lack replicas",
        "short",
        (
            ("sum(klamm_broker_under_replicated_partitions)", "under-replicated"),
            ("sum(klamm_broker_under_min_isr_partition_count)", "below min.insync.replicas"),
        ),
    ),
    Panel(
        "Deletions and moves",
        "short",
        (
            ("sum(klamm_controller_topics_to_delete_count)", "being deleted"),
            ("sum(klamm_controller_topics_ineligible_to_delete_count)", "halted"),
            ("sum(klamm_controller_reassigning_partitions_count)", "partitions on the move"),
        ),
    ),
    Panel(
        "Topics and partitions",
        "short",
        (
            ("sum(klamm_controller_global_topic_count)", "topics"),
            ("sum(klamm_controller_global_partition_count)", "partitions"),
        ),
    ),
    Panel(
        "Bytes from producers",
        "Bps",
        ((f"sum by (broker) (rate(klamm_broker_bytes_in_total{_RATE}))", "broker {{broker}}"),),
    ),
    Panel(
        "Bytes to consumers",
        "Bps",
        ((f"sum by (broker) (rate(klamm_broker_bytes_out_total{_RATE}))", "broker {{broker}}"),),
    ),
    Panel(
        "Bytes between brokers",
        "Bps",
        (
            (
                f"sum by (broker) (rate(klamm_broker_replication_bytes_in_total{_RATE}))",
                "{{broker}}",
            ),
        ),
    ),
    Panel(
        "Requests",
        "reqps",
        ((f"sum by (api) (rate(klamm_broker_request_seconds_count{_RATE}))", "{{api}}"),),
    ),
    Panel(
        "Request time, 99 of 100",
        "s",
        (
            (
                "histogram_quantile(0.99, sum by (le, api) "
                f"(rate(klamm_broker_request_seconds_bucket{_RATE})))",
                "{{api}}",
            ),
        ),
    ),
    Panel(
        "Connections",
        "short",
        (("sum by (broker) (klamm_broker_connection_count)", "broker {{broker}}"),),
    ),
    Panel(
        "Controller's queue",
        "short",
        (("sum(klamm_controller_event_queue_size)", "events that wait"),),
    ),
    Panel(
        "In-sync sets",
        "cps",
        (
            (f"sum(rate(klamm_broker_isr_shrinks_total{_RATE}))", "shrink"),
            (f"sum(rate(klamm_broker_isr_expands_total{_RATE}))", "grow"),
        ),
    ),
    Panel(
        "Refused",
        "cps",
        (
            (f"sum(rate(klamm_broker_logins_failed_total{_RATE}))", "logins"),
            (f"sum(rate(klamm_broker_authorization_denials_total{_RATE}))", "by access lists"),
        ),
    ),
)
ALERT_RULES: Final = (
    Alert(
        "KlammController",
        "sum(klamm_controller_active_controller_count) != 1",
        1,
        "critical",
        "Nobody is the controller, or several are: klamm brokers list",
    ),
    Alert(
        "KlammOfflinePartitions",
        "sum(klamm_controller_offline_partitions_count) > 0",
        1,
        "critical",
        "Partitions have no leader and cannot be used: klamm status, klamm topics explain --all",
    ),
    Alert(
        "KlammBelowMinIsr",
        "sum(klamm_broker_under_min_isr_partition_count) > 0",
        1,
        "critical",
        "Writes with acks=all are refused: bring the missing brokers back",
    ),
    Alert(
        "KlammDiskFailed",
        "sum by (broker) (klamm_broker_offline_log_directory_count) > 0",
        0,
        "critical",
        "A log directory failed: replace the disk and restart the broker",
    ),
    Alert(
        "KlammUncleanElection",
        "increase(klamm_controller_unclean_leader_elections_total[5m]) > 0",
        0,
        "critical",
        "Records were given up for the sake of a leader: klamm story TOPIC",
    ),
    Alert(
        "KlammUnderReplicated",
        "sum(klamm_broker_under_replicated_partitions) > 0",
        10,
        "warning",
        "Replicas are down or too slow: klamm status",
    ),
    Alert(
        "KlammDeletionHalted",
        "sum(klamm_controller_topics_ineligible_to_delete_count) > 0",
        30,
        "warning",
        "A deletion waits for a replica or a move: klamm topics list --deleting",
    ),
    Alert(
        "KlammControllerBusy",
        "sum(klamm_controller_event_queue_size) > 1000",
        5,
        "warning",
        "The controller has more to do than it can: look at klamm_controller_events_queued",
    ),
    Alert(
        "KlammLoginsFail",
        "sum(rate(klamm_broker_logins_failed_total[5m])) > 1",
        5,
        "warning",
        "Somebody does not get in: the brokers' logs name the address",
    ),
)


def dashboard() -> str:
    """The dashboard, as Grafana imports it."""
    panels = [_panel(at, panel) for at, panel in enumerate(PANELS)]
    found = {
        "title": "klamm",
        "uid": "klamm",
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {
                    "name": "source",
                    "label": "Prometheus",
                    "type": "datasource",
                    "query": "prometheus",
                }
            ]
        },
        "panels": panels,
    }
    return json.dumps(found, indent=2) + "\n"


def _panel(at: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(at, COLUMNS)
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": at + 1,
        "title": panel.title,
        "type": panel.kind,
        "datasource": source,
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": column * WIDTH, "y": row * HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": source,
                "expr": query,
                "legendFormat": legend,
            }
            for number, (query, legend) in enumerate(panel.queries)
        ],
    }


def alerts() -> str:
    """The rules, as Prometheus loads them."""
    lines = ["groups:", "  - name: klamm", "    rules:"]
    for alert in ALERT_RULES:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {alert.when}",
            f"        for: {alert.minutes}m",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
        ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    wanted = {DASHBOARD: dashboard(), ALERTS: alerts()}
    if parser.parse_args().check:
        stale = [path.name for path, text in wanted.items() if path.read_text() != text]
        if stale:
            pass
        return bool(stale)
    HERE.mkdir(parents=True, exist_ok=True)
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
