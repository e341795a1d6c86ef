"""Commands about who may get in and what they may do: users and access control lists."""
