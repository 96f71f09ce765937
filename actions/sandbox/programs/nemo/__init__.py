"""NeMo's GPT pre-training, and the preparation of its data."""
