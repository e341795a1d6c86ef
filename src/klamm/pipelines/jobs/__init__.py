"""Parts that several jobs share: tasks, progress, and files that are there whole or not at all."""
