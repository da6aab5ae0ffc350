"""Services beside a box, as a Compose file describes them: the box is the service ``main``.

``docker compose`` reads the file and creates what it asks for; images, files, starting, waiting and removing
are ours, as for every other box:

- ``program`` finds ``docker compose``, ``command`` runs it, ``sources`` looks at what it would read.
- ``model`` is the file as Compose understands it, ``safety`` what of it is refused.
- ``renaming``, ``images``, ``files``, ``network`` and ``override`` make of that model the one that is run.
- ``project`` creates and removes it, ``startup`` starts it in order, ``box`` is what callers get.

Public: :class:`~pytest_rlenv.sandboxes.docker.compose.services.Services`, which puts them together.
"""
