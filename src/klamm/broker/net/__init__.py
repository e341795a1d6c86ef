"""The network side of a broker: sockets, frames, routing, replies."""
