#!/usr/bin/env python3
"""Serve one GGUF model with llama.cpp's own HTTP server, from the prebuilt `xllamacpp` wheel.

    python xllamacpp_server.py --model model.gguf --alias NAME --host 127.0.0.1 --port 8000 --ctx-size 4096

Takes llama-server's flag names (those in FLAGS and SWITCHES) and sets the matching fields of xllamacpp's CommonParams, so a launch plan
for `llama-server` works here too. Without --parallel llama.cpp chooses: four slots that share one KV cache.

Exit codes: 0 after SIGTERM or SIGINT, 1 when the model, the port or the package does not serve, 2 for a bad flag. It does not
drain: open streams end when the process does. SIGTERM while the model loads ends the process at once, by the signal.
"""
import argparse
import errno
import os
import signal
import socket
import sys
import time


def words(text):
    return [word for word in text.split(",") if word]


def layers(text):
    """llama-server's spelling of --n-gpu-layers: a count, `auto`, or `all`."""
    return {"auto": -1, "all": -2}[text] if text in ("auto", "all") else int(text)


def pooling(text):
    """llama-server's words for --pooling, as llama.h numbers them."""
    return ["none", "mean", "cls", "last", "rank"].index(text)


def content(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as e:
        raise argparse.ArgumentTypeError(f'cannot read "{path}": {e.strerror}') from e


# names, CommonParams field, reader of the value
FLAGS = [
    (["--model", "-m"], "model.path", str),
    (["--alias", "-a"], "model_alias", lambda text: set(words(text))),
    (["--host"], "hostnames", words),
    (["--port"], "port", int),
    (["--ctx-size", "-c"], "n_ctx", int),
    (["--threads", "-t"], "cpuparams.n_threads", int),
    (["--threads-batch", "-tb"], "cpuparams_batch.n_threads", int),
    (["--threads-http"], "n_threads_http", int),
    (["--n-gpu-layers", "--gpu-layers", "-ngl"], "n_gpu_layers", layers),
    (["--parallel", "-np"], "n_parallel", int),
    (["--batch-size", "-b"], "n_batch", int),
    (["--ubatch-size", "-ub"], "n_ubatch", int),
    (["--api-key"], "api_keys", words),
    (["--api-key-file"], "api_keys", lambda path: content(path).split()),
    (["--cache-ram", "-cram"], "cache_ram_mib", int),
    (["--cache-reuse"], "n_cache_reuse", int),
    (["--ctx-checkpoints"], "n_ctx_checkpoints", int),
    (["--slot-prompt-similarity", "-sps"], "slot_prompt_similarity", float),
    (["--slot-save-path"], "slot_save_path", str),
    (["--pooling"], "pooling_type", pooling),
    (["--chat-template"], "chat_template", str),
    (["--chat-template-file"], "chat_template", content),
    (["--sse-ping-interval"], "sse_ping_interval", int),
    (["--timeout", "-to"], "timeout_read", int),
    (["--verbosity", "-lv"], "verbosity", int),
]
# names, field, value when the flag is there
SWITCHES = [
    (["--metrics"], "endpoint_metrics", True),
    (["--slots"], "endpoint_slots", True),
    (["--no-slots"], "endpoint_slots", False),
    (["--props"], "endpoint_props", True),
    (["--kv-unified", "-kvu"], "kv_unified", True),
    (["--embeddings", "--embedding"], "embedding", True),
    (["--no-cache-prompt"], "cache_prompt", False),
    (["--no-warmup"], "warmup", False),
    (["--jinja"], "use_jinja", True),
    (["--no-jinja"], "use_jinja", False),
]


def fail(message):
    print(f"xllamacpp_server: error: {message}", file=sys.stderr, flush=True)
    sys.exit(1)


def parse(argv):
    usage = "xllamacpp_server --model FILE [--host HOST] [--port PORT] [options of llama-server; --help lists them]"
    parser = argparse.ArgumentParser(
        prog="xllamacpp_server", usage=usage, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    for names, field, read in FLAGS:
        parser.add_argument(*names, dest=field, type=read, metavar="VALUE", required="--model" in names)
    for names, field, value in SWITCHES:
        parser.add_argument(*names, dest=field, action="store_const", const=value)
    found = vars(parser.parse_args(argv))
    found.setdefault("hostnames", ["127.0.0.1"])
    found.setdefault("port", 8080)
    found.setdefault("n_parallel", -1)
    if not 1 <= found["port"] <= 65535:
        parser.error(f"argument --port: {found['port']} is no port. Use 1 to 65535")
    if "cpuparams.n_threads" in found:
        found.setdefault("cpuparams_batch.n_threads", found["cpuparams.n_threads"])
    if "timeout_read" in found:
        found["timeout_write"] = found["timeout_read"]
    if os.environ.get("LLAMA_API_KEY") and "api_keys" not in found:
        found["api_keys"] = words(os.environ["LLAMA_API_KEY"])  # not in the process list, unlike --api-key
    return found


def check_model(path):
    """llama.cpp says the same for a missing and for a broken file; say which it is."""
    try:
        with open(path, "rb") as file:
            magic = file.read(4)
    except OSError as e:
        fail(f'failed to load model "{path}": {e.strerror}')
    if magic != b"GGUF":
        fail(f'failed to load model "{path}": not a GGUF file. Give the path of a .gguf file')


def check_port(host, port):
    if host.endswith(".sock"):
        return
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as e:
        why = "address already in use" if e.errno == errno.EADDRINUSE else e.strerror or str(e)
        fail(f"cannot listen on {host}:{port}: {why}")


def build_params(xllamacpp, found):
    params = xllamacpp.CommonParams()
    for field, value in found.items():
        *path, last = field.split(".")
        target = params
        for name in path:
            target = getattr(target, name)
        setattr(target, last, value)
    return params


def main(argv):
    found = parse(argv)
    check_model(found["model.path"])
    for host in found["hostnames"]:
        check_port(host, found["port"])
    try:
        import xllamacpp
    except ImportError as e:
        fail(f"cannot import xllamacpp: {e}. Install it: {sys.executable} -m pip install xllamacpp")
    started = time.monotonic()
    params = build_params(xllamacpp, found)
    try:
        server = xllamacpp.Server(params)  # listens at once (503), returns when the model is loaded
    except RuntimeError as e:
        fail(f"cannot start llama.cpp: {e} Its own log above has the cause")
    # Python may not see a signal that another thread took; the wake-up pipe is written by whichever thread it was.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    seconds = time.monotonic() - started
    print(f"xllamacpp_server: ready on {server.listening_address} after {seconds:.2f} s", file=sys.stderr, flush=True)
    os.read(reader, 1)
    print("xllamacpp_server: stopped by a signal", file=sys.stderr, flush=True)
    os._exit(0)  # the server's own end waits for open streams


if __name__ == "__main__":
    main(sys.argv[1:])
