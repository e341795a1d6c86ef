"""Drop-ins for the Kafka tools about access: lists, credentials, quotas, delegation tokens."""
