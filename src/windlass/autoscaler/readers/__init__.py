"""Readers: convert API objects to the engine's facts.

Pure functions from kube models to facts. An unreadable object raises InvalidObject; some can be salvaged in part.
"""
