"""The views: functions from the scene to plain values, and the table of them all."""
