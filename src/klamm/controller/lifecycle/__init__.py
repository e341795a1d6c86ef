"""A topic's life: it appears, grows, is deleted, and leaves copies behind."""
