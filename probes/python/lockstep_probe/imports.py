"""Calls back when a module has been imported, without importing it: hooks go in as soon as there is
something to hook.
"""

import sys

from . import recorder

_waiting = {}


class _Finder:
    """Stands before the other finders and lends a hand at the modules waited for."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in _waiting:
            return None
        for finder in sys.meta_path:
            if finder is _Finder or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        loader = spec.loader
        if loader is not None and hasattr(loader, "exec_module"):
            spec.loader = _Loader(loader)
        return spec


class _Loader:
    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._loader  # importlib's readers of resources want the real one
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._loader
        self._loader.exec_module(module)
        _arrived(module.__name__, module)


def _arrived(name, module):
    for action in _waiting.pop(name, ()):
        try:
            action(module)
        except Exception as error:
            recorder.give_up(error, f"hooking {name}")


def after(name, action):
    """action(module) once `name` is imported; at once where it is."""
    module = sys.modules.get(name)
    if module is not None and not getattr(
        getattr(module, "__spec__", None), "_initializing", False
    ):
        action(module)
        return
    _waiting.setdefault(name, []).append(action)
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def forget():
    _waiting.clear()
    if _Finder in sys.meta_path:
        sys.meta_path.remove(_Finder)
