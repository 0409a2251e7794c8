"""One client for any OpenAI-compatible endpoint."""
