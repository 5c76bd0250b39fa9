"""The encoders whose layers are known as data, by their names. Nothing here needs PyTorch."""

from show_attend_tell.registries import Registry
from show_attend_tell.vision.efficientnet import EFFICIENTNET_LITE2
from show_attend_tell.vision.network import Network
from show_attend_tell.vision.vgg import VGG19

ENCODERS = Registry("an encoder", "encoders", {network.name: network for network in (VGG19, EFFICIENTNET_LITE2)})


def register_encoder(network: Network) -> None:
    """Register an encoder under its name, so that both back ends build it. Raises `SatError` for a name in use."""
    ENCODERS.register(network.name, network)


def offset(name: str) -> tuple[float, float]:
    """`Network.offset` of the encoder of that name, in cells; zero for one that is not known as data."""
    return ENCODERS[name].offset if name in ENCODERS else (0.0, 0.0)
