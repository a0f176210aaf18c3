"""A process that looks at one part of a log for another one: started by its path, so that no working folder matters.

Where the other one's modules lie is told on its standard input, the store's address too; its life ends with that pipe.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Look at the part that standard input names."""
    roots = json.loads(sys.stdin.buffer.readline())
    sys.path[:0] = [root for root in roots if root not in sys.path]
    from projections.replay_hand import serve

    serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
