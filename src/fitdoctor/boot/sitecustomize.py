"""Python imports this before the first line of a script started by `fitdoctor run`.

It removes its traces (variable, path), lets the user's own `sitecustomize` run, and starts observing.  Whatever goes
wrong here must not keep the script from running.
"""


def _boot() -> None:
    import os
    import sys

    here = os.path.dirname(os.path.abspath(__file__))
    text = os.environ.pop("FITDOCTOR_BOOT", None)
    before = os.environ.pop("FITDOCTOR_PYTHONPATH", None)
    if before is None:
        os.environ.pop("PYTHONPATH", None)
    elif text is not None:
        os.environ["PYTHONPATH"] = before
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    sys.path_importer_cache.pop(here, None)
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        # The user's own takes our place, also in the eyes of the import that is under way.
        sys.modules["sitecustomize"] = module = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            sys.stderr.write(f"Error in sitecustomize: {type(error).__name__}: {error}\n")
    if text is None:
        return
    try:
        from fitdoctor.pipeline import observe_child

        observe_child(text)
    except Exception as error:
        sys.stderr.write(f"fitdoctor: cannot observe this process ({type(error).__name__}: {error})\n")


_boot()
