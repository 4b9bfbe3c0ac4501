"""Scenarios: small YAML files that say what a world is like, what happens in it, and what should come of it.

Lives here: what a file may say (`model`), reading it with the line of every mistake (`reading`, `checking`), making the
objects of its workloads (`workloads`) and playing its timeline (`driving`, `trouble`). Never here: how the world works.
"""
