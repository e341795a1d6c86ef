"""A small in-memory cluster around the controller's core: a store, brokers, and their answers."""
