"""Providers: node groups and the changes of their sizes, one package per cloud provider interface.

`base` is the protocol that all providers implement. Providers execute decisions and make none.
"""
