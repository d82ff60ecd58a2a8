"""The three channels: each sends a message to a recipient, or says why it could not."""
