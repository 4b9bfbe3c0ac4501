"""The verbs, one a file: from a call to an answer.

Lives here: what each verb reads from a request, in which order it does things, and which status it answers with.
What all writes share is in `writing`. Never here: rules of a kind.
"""
