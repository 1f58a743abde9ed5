"""Reads the cases of standard input as weir_guard.a2a does, and prints what it makes of them."""

import datetime
import json
import sys

sys.path.insert(0, sys.argv[1])
from weir_guard import Remaining, a2a  # noqa: E402

NOW = datetime.datetime(2026, 11, 20, 14, tzinfo=datetime.timezone.utc).timestamp()


def when(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else None


answers = []
for case in json.load(sys.stdin):
    hop = a2a.read(case["metadata"])
    answer = {"want": hop and hop.value()}
    if hop:
        answer["refused"] = hop.refused(NOW)
        remaining = [Remaining(r["rule_id"], r["left"], r["limit"], r["unit"], when(r.get("until"))) for r in case.get("remaining", ())]
        try:
            message = {}
            a2a.put(message, hop.next(remaining, case.get("card"), NOW))
            answer["next"] = message["metadata"][message["extensions"][0]]
            dumped = {"metadata": None, "extensions": None}  # as a model of Pydantic writes what is missing
            a2a.put(dumped, hop.next(remaining, case.get("card"), NOW))
            if dumped != message:
                sys.exit(f"{case['name']}: {dumped}, want {message}")
        except a2a.Spent as spent:
            answer["next_refused"] = spent.member
    answers.append(answer)
print(json.dumps(answers))
