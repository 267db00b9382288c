"""What the paper compares with, on the same blocks, tokenizer and data."""
