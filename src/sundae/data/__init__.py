"""Text that ships with the package; README.md beside this file says where it comes from."""
