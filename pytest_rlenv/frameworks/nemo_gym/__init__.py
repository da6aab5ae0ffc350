"""NeMo Gym: rows of JSONL files, each judged by a resources server over HTTP.

``finding.py`` lists rows without the package. ``resolving.py`` says which server a row is for, by an index
of the package's configs that ``_index_child.py`` makes in the user's interpreter, where
``started_server.py`` starts it, through ``_server_child.py``. ``session.py`` is one rollout over ``wire.py``,
``acting.py`` what each agent does in it, and ``judging.py`` reads what the server says of it.
"""
