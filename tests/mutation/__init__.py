"""Mutation testing: rules are changed on purpose, one place at a time, and a test must notice each change.

Lives here: the ways in which code is changed (`operators`), where it can be (`places`), running tests against a change
(`trying`, `living`), and the few changes that change nothing, with the reason (`equivalent.yaml`). Never here: a test
of a rule. It stands beside the rule's other tests.

`python -m tests.mutation` tries all; `make long KIND=mutants` calls it.
"""
