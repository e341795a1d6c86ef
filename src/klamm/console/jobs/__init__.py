"""Jobs: bulk work on records as `klamm` commands in processes of their own."""
