"""Deeds: all that the console can change, each with its role, its fields, its plan and its twin."""
