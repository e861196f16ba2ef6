"""`python -m becalm.bench`: the same as `becalm bench`."""

import sys

from becalm import _public
from becalm.__main__ import main

__all__ = ["main"]
__dir__ = _public.names(__all__)

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
