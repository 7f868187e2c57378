"""Lint a chart with Helm's own library and render it: helm.py CHART [VALUES as JSON]. Prints {"messages": [...], "files": {path: text}}."""

import json
import sys

from helm_python import chart

path, values = sys.argv[1], json.loads(sys.argv[2] if len(sys.argv) > 2 else "{}")
report = chart.lint(path, values, strict=True)
messages = [m["error"] for m in report["messages"] if m["severity"] > 1] + report["errors"]
print(json.dumps({"messages": messages, "files": chart.Chart.load(path).render(values, name="r", namespace="llm")}))
