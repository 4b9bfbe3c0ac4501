"""Placement: where pods go on existing nodes and on new ones, many of one shape at a time."""
