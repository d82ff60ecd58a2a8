"""HTTP and WebSocket, around the engine."""
