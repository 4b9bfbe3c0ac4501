"""Contracts: what windlass relies on of an API server, run against the embedded one and a real kube-apiserver.

One suite, written against a tiny client. A difference is a bug of the embedded server. What the embedded one leaves
to the real one is in `test_left_to_the_real_server.py`: there each case says what either does.
"""
