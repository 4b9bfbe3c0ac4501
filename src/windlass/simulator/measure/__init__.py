"""What came of it: series over time, totals, the least that it could have cost, and whether it ended as expected.

Lives here: reading the world's changes into numbers. Never here: changing the world, or text for people.
"""
