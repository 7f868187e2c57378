"""NIXL's progress thread looks for work without pause: its Python binding asks for a delay of 0 (nixl 1.x, `_api.py`, `pthrDelay`),
and vLLM has no option for it. Two engines on two cores then have none left to compute on. With this folder on PYTHONPATH
it waits for a millisecond, or until a socket has something."""

import importlib.abc
import importlib.util
import sys

DELAY_US = 1000


class CalmNixl(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if not (name.startswith("nixl") and name.endswith("._bindings")):
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            make = module.nixlAgent

            def calm(agent_name, config):
                config.pthrDelay = DELAY_US
                return make(agent_name, config)

            module.nixlAgent = calm

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, CalmNixl())
