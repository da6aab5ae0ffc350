"""The model as agents reach it: one server for each rollout, which holds the real key, counts and records.

A program in a box, or an agent in this process, is told the server's address and a key that is good for this
rollout alone. What it asks is passed on to the model's provider, or answered from a recording. The server
listens on the box's own loopback, on a socket that the box has handed over, so that a box without any network
reaches it and nothing else.

- ``providers`` and ``access``: which provider, at which address, with whose key; settled once for a run.
- ``proxy``: the server of one rollout. ``serving`` speaks HTTP, ``exchange`` takes one request to its answer,
  ``upstream`` asks the provider.
- ``wires`` and ``requests``: what a request may ask for, and what of it is changed on its way.
- ``answers`` and ``events``: what can be read from an answer: tokens, refusals, errors.
- ``ledger`` and ``endings``: what was called, the budgets, and what the calls say of how an agent ended.
- ``recording``, ``replaying``, ``comparable`` and ``difference``: calls that are kept, and made again without
  a model.
"""
