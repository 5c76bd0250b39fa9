"""Names of types that many modules use."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]  # of any shape and type
Record = dict[str, Any]  # plain values by their names, as JSON has them
