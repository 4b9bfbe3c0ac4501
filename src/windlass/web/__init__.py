"""The dashboard: a read-only web page with the state of the cluster and the reasons of decisions, with access control.

Contents: the HTTP server and its access control (`dashboard`), and the page itself (`page/`: plain HTML, CSS and ES
modules; no build step, no third-party code). No decision is made here, and nothing can be changed. The page shows the
status of `observability` and the answers of `explain`, for a live cluster and for a simulation.

    dashboard.make_app   access control ──▶ /published, /published/stream, /explain/… ──▶ page/*.js
"""
