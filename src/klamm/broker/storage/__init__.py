"""The log directories of a broker: logs, relocations, strays, chores."""
