"""How sources and tests name equations."""
