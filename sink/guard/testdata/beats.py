"""Reads the answers to heartbeats of standard input as weir_guard does, and prints the milliseconds of each."""

import json
import sys

sys.path.insert(0, sys.argv[1])
from weir_guard import beats  # noqa: E402

print(json.dumps([round(1000 * (beats.due(answer.encode()) or 0)) for answer in json.load(sys.stdin)]))
