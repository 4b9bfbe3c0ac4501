"""Recorded workloads: pods with their requests and lifetimes, and the machine types of the cluster they ran on.

Lives here: reading the two tables (`reading`), and playing them in a world (`playing`). Never here: invented pods.
"""
