"""What those run who work on the project: python -m scripts.maintain.NAME."""
