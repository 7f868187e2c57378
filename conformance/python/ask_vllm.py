#!/usr/bin/env python3
"""Ask a real vLLM, on a machine without a GPU, whether it takes `vllm serve` command lines.

usage: ask_vllm.py MODEL < cases.json

cases.json: a list of {"id", "argv", "env", "construct"}; argv starts with `vllm serve NAME`. MODEL, a folder with config.json
and a tokenizer, is loaded in place of every NAME, so hub names can be asked about offline. Prints one JSON object a case, in
order: {"id", "ok", "stage", "error", "warnings"}; stage is the last one reached, so the one that refused when ok is false:

  argparse   the parser of `vllm serve`
  validate   what `serve` checks in its parsed arguments
  config     AsyncEngineArgs.from_cli_args().create_engine_config()
  connector  KVConnectorFactory finds the class of the connector and of each child in it
  construct  (cases with "construct") the scheduler's half of the connector is made

No engine is started and no weights are read. Each case runs in a forked child in a session of its own.
"""
import contextlib
import io
import json
import logging
import os
import select
import signal
import sys
import time

for name, value in {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "WARNING",
                    "VLLM_CPU_KVCACHE_SPACE": "1"}.items():
    os.environ.setdefault(name, value)

MODEL = sys.argv[1]
SECONDS = 180


def serve_parser():
    """The parser that the `vllm` program builds, with `serve` alone."""
    import vllm.entrypoints.cli.serve as serve
    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:  # older releases
        from vllm.utils import FlexibleArgumentParser
    top = FlexibleArgumentParser(description="vLLM CLI")
    command = serve.cmd_init()[0]
    command.subparser_init(top.add_subparsers(required=False, dest="subparser"))
    return top, command


def find_classes(config):
    """Find the connector's class, and those of the children of a MultiConnector, as the engine does."""
    from vllm.config.kv_transfer import KVTransferConfig
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
    KVConnectorFactory.get_connector_class(config)
    for child in config.kv_connector_extra_config.get("connectors") or []:
        find_classes(KVTransferConfig(**child, engine_id=config.engine_id))


def construct(config):
    """Make the scheduler's half of the connector over a small made-up KV cache."""
    import torch
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
    from vllm.distributed.kv_transfer.kv_connector.v1 import KVConnectorRole
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    model, parallel, cache = config.model_config, config.parallel_config, config.cache_config
    spec = FullAttentionSpec(block_size=cache.block_size, num_kv_heads=model.get_num_kv_heads(parallel),
                             head_size=model.get_head_size(), dtype=torch.bfloat16)
    layers = [f"model.layers.{i}.self_attn.attn" for i in range(model.get_num_layers(parallel))]
    blocks = KVCacheConfig(num_blocks=64, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(layers, spec)])
    cache.num_gpu_blocks = 64
    KVConnectorFactory.create_connector(config, KVConnectorRole.SCHEDULER, blocks)


def ask(case, answer):
    os.environ.update(case.get("env") or {})
    top, command = serve_parser()
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            args = top.parse_args(["serve", *case["argv"][2:]])
    except SystemExit as e:
        text = said.getvalue()
        at = text.find("error: ")
        raise ValueError(text[at + 7:].strip() if at >= 0 else f"exit {e.code}") from None
    answer["stage"] = "validate"
    args.model = args.model_tag = MODEL
    command.validate(args)
    answer["stage"] = "config"
    import vllm
    from vllm.usage.usage_lib import UsageContext
    config = vllm.AsyncEngineArgs.from_cli_args(args).create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER)
    answer["stage"] = "connector"
    transfer = config.kv_transfer_config
    if transfer is None or transfer.kv_connector is None:
        return
    find_classes(transfer)
    if case.get("construct"):
        answer["stage"] = "construct"
        construct(config)


def answer_of(case):
    answer = {"id": case["id"], "ok": False, "stage": "argparse", "error": None, "warnings": []}
    handle = logging.Logger.handle

    def listen(logger, record):  # vLLM sets its loggers up again, so a handler would get lost
        if record.levelno >= logging.WARNING and record.name.split(".")[0] in ("vllm", "kvbm", "lmcache"):
            text = record.getMessage()[:500]
            if text not in answer["warnings"]:
                answer["warnings"].append(text)
        return handle(logger, record)

    logging.Logger.handle = listen
    try:
        ask(case, answer)
        answer["ok"] = True
    except BaseException as e:  # noqa: BLE001 - everything is an answer here
        answer["error"] = f"{type(e).__name__}: {e}".strip()[:2000]
    return answer


def forked(case):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.close(reading)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        with os.fdopen(writing, "w") as pipe:
            pipe.write(json.dumps(answer_of(case), default=str))
        os._exit(0)
    os.close(writing)
    text, end = b"", time.time() + SECONDS
    with os.fdopen(reading, "rb") as pipe:
        while select.select([pipe], [], [], max(0, end - time.time()))[0]:
            chunk = os.read(pipe.fileno(), 65536)
            if not chunk:
                break
            text += chunk
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # with whatever a connector has started
    os.waitpid(pid, 0)
    try:
        return json.loads(text)
    except ValueError:
        why = f"no answer within {SECONDS} s" if time.time() >= end else "the child died"
        return {"id": case["id"], "ok": False, "stage": "crash", "error": why, "warnings": []}


import vllm.entrypoints.cli.serve  # noqa: E402, F401 - once, before forking

for each in json.load(sys.stdin):
    print(json.dumps(forked(each)), flush=True)
