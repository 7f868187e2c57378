#!/usr/bin/env python3
"""Ask a server that is a Python module whether it takes command lines; it is stopped before it loads or listens.

usage: ask_module.py mlx_lm.server|llama_cpp.server < cases.json

cases.json: a list of {"id", "argv"}; argv is what follows `python -m …`. Prints one JSON object a case, in order:
{"id", "ok", "stage", "error", "warnings"}. Stage `argparse`: the module's own parser. Stage `settings` (llama_cpp.server):
its pydantic settings too, up to where the application would be made. Each case runs in a forked child.
"""
import argparse
import contextlib
import io
import json
import os
import runpy
import sys


class Taken(BaseException):
    """The server would start now."""


def take(*_, **__):
    raise Taken


def stop_before_start(module):
    if module == "llama_cpp.server":
        import llama_cpp.server.app as app
        app.create_app = take
        return "settings"
    parse = argparse.ArgumentParser.parse_args

    def parsed(self, *args, **kwargs):
        parse(self, *args, **kwargs)
        raise Taken

    argparse.ArgumentParser.parse_args = parsed
    return "argparse"


def ask(module, case):
    answer = {"id": case["id"], "ok": False, "stage": "argparse", "error": None, "warnings": []}
    said = io.StringIO()
    sys.argv = [module, *case["argv"]]
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            stage = stop_before_start(module)
            runpy.run_module(module, run_name="__main__", alter_sys=False)
        answer["error"] = "it ended by itself"
    except Taken:
        answer.update(ok=True, stage=stage)
    except SystemExit as e:
        lines = [line for line in said.getvalue().split("\n") if line.strip()]
        answer["error"] = lines[-1].strip() if lines else f"exit {e.code}"
    except BaseException as e:  # noqa: BLE001 - everything is an answer here
        answer["error"] = f"{type(e).__name__}: {e}"[:2000]
    return answer


def forked(module, case):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            pipe.write(json.dumps(ask(module, case)))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return text or json.dumps({"id": case["id"], "ok": False, "stage": "crash", "error": "the child died", "warnings": []})


for each in json.load(sys.stdin):
    print(forked(sys.argv[1], each), flush=True)
