"""webhooks: admission, served over TLS: what controllers think of an object is asked before it is stored.

    reviewing   an AdmissionReview in, an AdmissionReview out: pure
    serving     the server

A controller's room has its hooks in `hooks.py`, by path; `registry` collects them. They are served by every replica,
whether or not it leads: whoever asks waits for an answer. What a webhook refuses the controller refuses as well: the
webhook may be down.
"""
