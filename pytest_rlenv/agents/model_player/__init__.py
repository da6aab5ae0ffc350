"""The agent ``model``: a model plays an episode with the tools that the episode has."""
