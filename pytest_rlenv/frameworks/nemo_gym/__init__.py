"""NeMo Gym: rows of JSONL files, each judged by a resources server over HTTP.

``finding.py`` lists rows without the package. ``resolving.py`` says which server a row is for, by an index of
the package's configs that ``_index_child.py`` makes in the user's interpreter; ``server.py`` starts it there,
through ``_server_child.py``. ``session.py`` is one rollout over ``wire.py``; ``judging.py`` reads what the
server says of it.
"""
