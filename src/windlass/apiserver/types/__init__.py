"""What the objects are made of: the shape of every built-in kind, and of custom ones, as one model.

Lives here: `model` (the shape: scalars, lists with or without keys, maps, structs), `tables` (the shapes of the
built-in kinds, as data, in Kubernetes' own field names) and `normalise` (what decoding into Go's structs and encoding
again makes of an object). Shapes say nothing about what is valid.
"""
