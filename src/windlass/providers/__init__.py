"""Providers: where node groups come from, and who makes and deletes their machines.

Lives here: one package per provider, and the protocol that they share (`base.py`). Never here: a decision.
"""
