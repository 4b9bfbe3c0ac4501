"""The terminal UI of `windlass top`: the published status on one screen, redrawn as it changes.

Contents: the status stream (`status_stream`), rows as styled text (`status_rows`), the screen (`app`). No decision is
made here, and no figure is computed that the status does not have. Imitate `status_rows`: values in, text out.

Only `app` needs textual, an optional extra; `windlass top` reports it if it is missing.
"""
