"""The partitions a broker hosts: leading, following, orders of the controller."""
