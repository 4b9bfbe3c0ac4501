"""Readers: API objects become the engine's facts.

Pure functions from kube models to facts; an unreadable object raises InvalidObject, and some can be salvaged in part.
"""
