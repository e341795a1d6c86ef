"""Administration: topics, settings, policies, automatic creation."""
