#!/usr/bin/env python3
"""Ask a real SGLang, on a machine without a GPU, whether it takes command lines.

usage: PYTHONPATH=UNPACKED_WHEEL ask_sglang.py < cases.json

cases.json: a list of {"id", "argv", "env"}; argv is what follows `python -m sglang.launch_server`. `--model-path` must name a
folder with a real config.json (weights are not read). Prints one JSON object a case, in order:
{"id", "ok", "stage", "error", "warnings"}; stage is the last one reached, so the one that refused when ok is false:

  argparse  the parser                   resolve  ServerArgs.resolve_once(): the whole resolution pipeline
  check     ServerArgs.check_server_args()        events   KVEventsConfig and its publisher's name

Real: all of SGLang's own code for those stages. Stood in for: facts of the machine (an H100, 8 devices of 81,559 MiB), by
SGLang's own platform override where it has one, else by replacing its probe functions. Each case runs in a forked child.
"""
import contextlib
import importlib
import io
import json
import logging
import os
import pkgutil
import sys
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")
STDOUT = os.dup(1)
os.dup2(2, 1)  # imports may print

import sglang.srt.utils.common as common  # noqa: E402

PROBES = {
    "get_device": lambda device_id=None: "cuda" if device_id is None else f"cuda:{device_id}",
    "get_device_memory_capacity": lambda device=None: 81559,
    "get_device_count": lambda: 8,
    "get_device_name": lambda device_id=0: "NVIDIA H100 80GB HBM3",
    "get_device_sm": lambda: 90,
    "get_device_capability": lambda device_id=0: (9, 0),
    "is_cuda": lambda: True,
    "is_cuda_alike": lambda: True,
    "is_sm90_supported": lambda device=None: True,
    "is_hopper_with_cuda_12_3": lambda: True,
    "is_flashinfer_available": lambda: True,
}
ORIGINAL = {name: getattr(common, name) for name in PROBES if hasattr(common, name)}
HOPPER = {
    "is_cuda": True, "is_sm90": True, "is_hopper_with_cuda_12_3": True, "has_flashinfer": True,
    "device_sm": 90, "device_capability": (9, 0),
    **dict.fromkeys(("is_hip", "is_npu", "is_xpu", "is_musa", "is_mps", "is_sm100", "is_sm100_or_sm110", "is_sm110", "is_sm120",
                     "is_blackwell", "has_amx"), False),
}


def pretend():
    """Make SGLang believe in the GPU."""
    with contextlib.suppress(ImportError):
        import sglang.srt.arg_groups as groups
        for module in pkgutil.iter_modules(groups.__path__):
            with contextlib.suppress(Exception):
                importlib.import_module(f"sglang.srt.arg_groups.{module.name}")
    with contextlib.suppress(ImportError, AttributeError):  # older releases have the probes alone
        from sglang.srt import runtime_context
        facts = dict(HOPPER)
        while True:
            try:
                runtime_context.override_platform(**facts).install()
                break
            except ValueError as e:  # an older release does not know all of these facts
                unknown = [name for name in facts if f"'{name}'" in str(e)]
                if not unknown:
                    raise
                for name in unknown:
                    del facts[name]
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("sglang."):
            for name, original in ORIGINAL.items():
                if module.__dict__.get(name) is original:
                    setattr(module, name, PROBES[name])


class Warnings(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.seen = []

    def emit(self, record):
        text = record.getMessage()[:500]
        if text not in self.seen:
            self.seen.append(text)


def ask(case):
    from sglang.srt.server_args import prepare_server_args
    answer = {"id": case["id"], "ok": False, "stage": "argparse", "error": None, "warnings": []}
    os.environ.update(case.get("env") or {})
    said, heard = io.StringIO(), Warnings()
    try:
        with contextlib.redirect_stderr(said):
            args = prepare_server_args(list(case["argv"]))
        logging.getLogger().addHandler(heard)
        with contextlib.redirect_stderr(io.StringIO()):
            answer["stage"] = "resolve"
            if hasattr(args, "resolve_once"):  # older releases resolve while they parse
                args.resolve_once()
            answer["stage"] = "check"
            args.check_server_args()
            resolved = args.resolved_dict() if hasattr(args, "resolved_dict") else vars(args)
            events = resolved.get("kv_events_config")
            if events:
                answer["stage"] = "events"
                from sglang.srt.disaggregation.kv_events import EventPublisherFactory, KVEventsConfig
                publisher = KVEventsConfig.from_cli(events).publisher
                if publisher not in EventPublisherFactory._registry:
                    raise ValueError(f"Unknown event publisher '{publisher}'")
        answer["ok"] = True
    except SystemExit as e:
        lines = [line for line in said.getvalue().split("\n") if line.strip()]
        answer["error"] = lines[-1].strip() if lines else f"exit {e.code}"
    except BaseException as e:  # noqa: BLE001 - everything is an answer here
        answer["error"] = f"{type(e).__name__}: {e}"
    answer["warnings"] = heard.seen[:20]
    return answer


def forked(case):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(writing, "w") as pipe:
            pipe.write(json.dumps(ask(case), default=str))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return text or json.dumps({"id": case["id"], "ok": False, "stage": "crash", "error": "the child died", "warnings": []})


pretend()
with os.fdopen(STDOUT, "w") as out:
    for each in json.load(sys.stdin):
        print(forked(each), file=out, flush=True)
