"""Weighs oversize documents, large ones in the helper process."""

import asyncio

from headgate.core.oversize.weigh import Weight, heaviest
from headgate.offload.helper_process import HelperProcess

INLINE_BYTES = 65_536  # below, weighing takes less than the hop to another process
_PATIENCE_S = 5.0  # an answer without paths is better than one that comes too late


class PoolWeigher:
    """See the module."""

    def __init__(self, helper: HelperProcess) -> None:
        self._helper = helper

    async def weigh(self, document: bytes) -> list[Weight]:
        if len(document) <= INLINE_BYTES:
            return heaviest(document)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await self._helper.ask(heaviest, document) or []
        except TimeoutError:
            return []
