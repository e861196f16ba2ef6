"""`python -m becalm.bench`: the same as `becalm bench`."""

import sys

from becalm.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
