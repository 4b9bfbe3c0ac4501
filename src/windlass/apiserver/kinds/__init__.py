"""What one kind does beyond what all kinds do: defaults, what the server sets, what it refuses.

Lives here: `strategy` (the questions that every kind answers, with the common answers) and one file for each family
of kinds that answers some of them otherwise. Objects are plain JSON in their normal form; strategies change the new
object in place and return complaints as values. Never here: storage, requests, ownership of fields.

Imitate `leases.py`.
"""
