"""What agents of ours that talk to a model share: the client, the conversation, and the loop."""
