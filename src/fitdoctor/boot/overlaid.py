"""Stands in front of a script some of whose files are read as something else: `python overlaid.py [-m] TARGET ARGS`.

From there on it is as if Python had been started with the target itself.
"""


def _run() -> None:
    import os
    import runpy
    import sys

    from fitdoctor.capture import overlay

    with open(os.environ.pop(overlay.VARIABLE), encoding="utf-8") as file:
        overlay.install(file.read())
    words = sys.argv[1:]
    if words[0] == "-m":
        sys.argv[:] = ["-m", *words[2:]]
        _first_on_path(os.getcwd())
        runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]  # what `python -m` calls itself
        return
    sys.argv[:] = words
    path = os.path.abspath(words[0])
    if os.path.isdir(path):
        _first_on_path(path)
        path = os.path.join(path, "__main__.py")
    else:
        _first_on_path(os.path.dirname(os.path.realpath(path)))
    data = overlay.data_of(path)
    if data is None:
        with open(path, "rb") as script:
            data = script.read()
    own = vars(sys.modules["__main__"])
    for name in [name for name in own if name not in ("__name__", "__builtins__")]:
        del own[name]
    own.update(__file__=path, __doc__=None, __package__=None, __spec__=None, __loader__=None, __cached__=None)
    exec(overlay.code_of(path, data), own)  # noqa: S102  # the user's own script


def _first_on_path(folder: str) -> None:
    import sys

    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder


_run()
