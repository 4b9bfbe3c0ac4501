"""Conversion: what an object of one API is in the other's words. Values in, values out.

labels, annotations   by key
spec                  replicas, policies, template, selector
infrastructure        what Machines are made of: a template of Cluster API, by reference or by content
status                counts and conditions
comparing             what differs between two objects of one kind, for people
"""
