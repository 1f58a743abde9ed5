"""Hashes the texts of standard input as weir_guard.hashes does, by both of its ways to make xxh64."""

import json
import sys

sys.path.insert(0, sys.argv[1])
from weir_guard import hashes  # noqa: E402

rows = json.load(sys.stdin)
fast = hashes._digest
for row in rows:
    for digest in (hashes._xxh64, fast):
        hashes._digest = digest
        given = row["text"]
        if row["of"] == "args":
            got = {"hash": hashes.hash_args(given), "simhash": hashes.sim_args(given), "canonical": hashes.canonical(given.strip(hashes._SPACE))}
        else:
            got = {"hash": hashes.hash_content(given), "simhash": hashes.simhash(given), "canonical": ""}
        if digest is fast and got["hash"] != row["hash"]:
            break
    row.update(got)
print(json.dumps(rows))
