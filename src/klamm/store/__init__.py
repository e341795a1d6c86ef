"""Cluster metadata: one interface in the model of ZooKeeper, and the stores behind it."""
