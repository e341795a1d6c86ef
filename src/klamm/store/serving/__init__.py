"""ZooKeeper's client protocol in front of the embedded store."""
