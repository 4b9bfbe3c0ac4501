"""Telling: accounts as text for people, line by line. What is told stands in an account; nothing is decided here."""
