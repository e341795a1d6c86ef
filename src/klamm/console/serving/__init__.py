"""Serving: addresses to views, plans and actions, and the loop that runs it all."""
