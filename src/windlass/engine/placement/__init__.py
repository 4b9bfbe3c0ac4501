"""Placement: where pods go, many of one shape at a time, and how many new nodes they need."""
