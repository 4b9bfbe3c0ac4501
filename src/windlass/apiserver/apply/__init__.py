"""Server-side apply: who owns which field, and what becomes of an object when someone applies, updates or scales it.

Lives here: `fieldset` (sets of field paths), `compare` and `merge` (what two objects differ in, and become together),
`prune` (what goes when its last owner leaves it out), `managers` (entries of managedFields) and `manager` (the rules
that tie them). Follows structured-merge-diff; objects are plain JSON, never changed in place. Never here: requests,
storage, defaults, validity.
"""
