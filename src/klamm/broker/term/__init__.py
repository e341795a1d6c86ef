"""The controller's shell: election, inbox, observing, committing, outbox."""
