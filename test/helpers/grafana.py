"""Read a dashboard by Grafana's own schema (its Foundation SDK) and print each member that the schema has not: grafana.py FILE."""

import json
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard


def lost(was, now, place):
    if isinstance(was, dict) and isinstance(now, dict):
        for name, value in was.items():
            yield from lost(value, now[name], f"{place}.{name}") if name in now else [f"{place}.{name}"]
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for n, (one, other) in enumerate(zip(was, now)):
            yield from lost(one, other, f"{place}[{n}]")
    elif was != now:
        yield f"{place}: {json.dumps(was)} is read as {json.dumps(now)}"


with open(sys.argv[1], encoding="utf8") as file:
    written = json.load(file)
read = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(written)))
for line in lost(written, read, "$"):
    print(line)
