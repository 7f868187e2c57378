"""Modules that are only named: every attribute is a function that fails when it is called, and every submodule is there.

SGLang's CPU kernels (sgl_kernel) are on no package index. With this in their place, and kernels of torch chosen by flags, its
scheduler, KV cache, HTTP server and events are its own; only kernels that are never reached are missing.
"""
import importlib
import importlib.abc
import importlib.machinery
import sys
import types


class Named(types.ModuleType):
    __version__ = "0.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def missing(*_, **__):
            raise RuntimeError(f"{self.__name__}.{name} is a stand-in and cannot compute")

        missing.__name__ = name
        return missing


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, root, real):
        self.prefix, self.real = f"{root}.", real

    def find_spec(self, name, path=None, target=None):
        if name.startswith(self.prefix):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        real = self.real.get(spec.name)
        return importlib.import_module(real) if real else Named(spec.name)

    def exec_module(self, module):
        module.__dict__.setdefault("__path__", [])


def stand_in(root, real=None):
    """Put a package of that name in place; `real` maps submodules to modules that are used as they are."""
    sys.meta_path.insert(0, Finder(root, real or {}))
    module, old = Named(root), sys.modules[root]
    module.__path__, module.__file__, module.__spec__ = [], old.__file__, old.__spec__
    sys.modules[root] = module
