"""What people write with: from a request to finished texts, on top of the chain."""
