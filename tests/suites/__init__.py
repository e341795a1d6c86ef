"""Test suites of foreign clients, fetched from package registries and run against a fresh klamm.

    make suites                              # all that can be had
    make suites ARGS="franz-go kafka-go"     # some

`suites.toml` says what is fetched and how it is run, `explained/` why a test may fail. Nothing of
theirs is kept here: packages live in the user's cache.
"""
