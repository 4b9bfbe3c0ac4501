"""Benchmarks: `python -m benchmarks NAME` prints one JSON object. They measure; nothing here asserts a time."""
