"""Acting: a plan's instructions carried out against the API server and the provider.

Lives here: one file per kind of instruction, and the order in which they go. Never here: whether something should be
done. What fails comes back as a fact (`outcome.py`); nothing is retried here that the next decision would order anyway.
"""
