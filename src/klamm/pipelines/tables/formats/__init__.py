"""The formats a table can have, behind one port."""
