"""What the Python clients share: their arguments, and how a case is run and told (a row of JSON a line)."""
import json
import sys
import traceback

GIVEN = json.loads(sys.argv[1])
URL = GIVEN["url"]
TARGETS = GIVEN["targets"]
SCRIPTED = GIVEN["scripted"]
EMBEDDER = GIVEN.get("embedder")
QUESTION = [{"role": "user", "content": "Name a colour in one word."}]
# A few words to choose from: a small model that may write any text does not come to the end of it within the limit.
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}


def told(script):
    """What the model that does what it is told is told."""
    return [{"role": "user", "content": f"Please [[{script}]]."}]


def check(holds, what, seen=None):
    if not holds:
        raise AssertionError(f"{what}; seen: {str(seen)[:300]}")


def case(client, name, model, run):
    """Run one case and write its row."""
    row = {"client": client, "name": name, "model": model, "ok": True}
    try:
        run()
    except Exception as e:
        at = traceback.extract_tb(e.__traceback__)[-1]
        row.update(ok=False, said=f"{type(e).__name__}: {e} ({at.name}, line {at.lineno})")
    print(json.dumps(row), flush=True)


def raises(kind, run, status=None):
    """The error of this class that `run` must end with."""
    try:
        run()
    except kind as e:
        check(status is None or e.status_code == status, f"its status is {status}", getattr(e, "status_code", None))
        return e
    raise AssertionError(f"no {kind.__name__} came")
