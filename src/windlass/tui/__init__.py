"""The terminal view: the published status on one screen, as it changes.

Lives here: `events` and `feed`, how the status comes; `rows` and `bars`, what is shown of it; `lines` and `app`, the
screen. Never here: a decision, or a figure that the status does not have. Imitate `rows`: values in, text out.

Only `lines`, `app` and `answer` need textual, which is an extra; `windlass top` says so where it is missing.
"""
