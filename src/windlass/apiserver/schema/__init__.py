"""Custom kinds: what a CustomResourceDefinition's schema does to an object.

Lives here: `shapes` (the schema as a shape for server-side apply), `pruning` (fields the schema does not know),
`defaulting`, `validation` and `listtypes` (complaints in the real server's words), `formats` and `metadata`. Schemas
are plain JSON as the CRD spells them; functions take (value, schema) and change the value in place where they must.
Never here: CEL rules, conversion.
"""
