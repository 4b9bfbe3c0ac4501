"""Subresources that are objects of their own: scale, eviction, binding. Status is an update that changes less.

Lives here: one subresource a file, from a call to an answer. Their changes of the parent go through `writing`, except
where the real server writes past it (binding, eviction): then no ownership is tracked here either.
"""
