"""Admission webhooks of operators, as far as the sandbox plays them: inside the API server instead of beside it."""
