"""The agent ``bash``: a model, a loop and one tool."""
