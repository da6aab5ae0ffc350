"""What tokens cost: as the user says, in US dollars for a million of them. No table here would stay true."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pytest_rlenv.model_proxy.answers import Tokens

_MILLION = 1_000_000


class Prices(NamedTuple):
    """US dollars for a million tokens.

    Attributes:
        input: of those that are sent.
        output: of those that come back.
        cached: of those sent that the provider reads from its cache.
    """

    input: float
    output: float
    cached: float

    @classmethod
    def parse(cls, text: str) -> Prices:
        """Read ``2.5/10`` (input and output) or ``2.5/10/1.25`` (cached input, too).

        Raises:
            ValueError: it is neither, or a price is negative.
        """
        try:
            numbers = [float(part) for part in text.split("/")]
        except ValueError:
            numbers = []
        if len(numbers) not in (2, 3) or not all(0 <= number < float("inf") for number in numbers):
            raise ValueError(f"{text!r} is not INPUT/OUTPUT or INPUT/OUTPUT/CACHED, in USD for 1M tokens")
        return cls(numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else numbers[0])

    def cost_of(self, tokens: Tokens) -> float:
        """Return what tokens cost, in US dollars."""
        fresh = max(0, tokens.input - tokens.cached)
        return (fresh * self.input + tokens.cached * self.cached + tokens.output * self.output) / _MILLION


def check_prices(text: object) -> str:
    """Return the text of prices as it is.

    Raises:
        ValueError: it is not one.
    """
    Prices.parse(str(text))
    return str(text)
