"""Text to tokens and back: tokenizers, templates with blanks, and corpora on disk.  Nothing here imports torch."""
