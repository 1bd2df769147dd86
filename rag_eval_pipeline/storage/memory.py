"""Memory that work no longer needs goes back to the system, instead of being kept for more of the same.

A million rows pass through a few megabytes at a time. Arrow's own allocator and glibc's arenas, one a thread, kept five
times as much as was ever in use: 198 MB at the peak, and 88 MB so, at a tenth more time.
"""

import ctypes
import functools
import sys

_M_ARENA_MAX = -8  # malloc.h
_ARENAS = 2


@functools.cache
def give_memory_back() -> None:
    """Sets the allocators of this process, once."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())
    if sys.platform == "linux":
        # Other C libraries than glibc have no such arenas, and no such function.
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_ARENA_MAX, _ARENAS)
