from .trace import MessageNode


class _Turn:
    def __init__(self, trace, prompt) -> None:
        self.trace, self.prompt = trace, prompt

    def commit(self, response) -> None:
        nodes = self.trace.nodes
        for message in self.prompt[len(nodes) :]:
            nodes.append(MessageNode(parent=len(nodes) - 1 if nodes else None, message=message))
        nodes.append(
            MessageNode(parent=len(nodes) - 1 if nodes else None, message=response.message, sampled=True)
        )


def prepare_turn(trace, prompt):
    return _Turn(trace, prompt)
