"""The dashboard: a page that shows how everything stands and why, and answers nobody who may not ask.

Lives here: the server of the page, who may read it, and the page itself (`page/`: plain HTML, CSS and ES modules; no
build step, nobody else's code). Never here: a decision, or a way to change anything. What is shown is what
`autoscaler.published` tells and `explain` answers, live and in a simulation alike.

    dashboard.make_app   who asks? (access) ──▶ /published, /published/stream, /explain/… ──▶ page/*.js
"""
