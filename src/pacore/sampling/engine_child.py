"""The child process that runs llama.cpp: started by ``embedded``, gone when its parent is gone.

Settings come as one JSON line on stdin; the address, or what went wrong, goes as one JSON line to
stdout. The end of stdin means that the parent ended, however it did.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    """Serve until stdin ends."""
    settings = json.loads(sys.stdin.readline())
    # The engine prints on descriptor 1 as well: keep the real stdout for the one line of the protocol.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = settings["gguf"]
        params.model_alias = [settings["name"]]
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.n_parallel = settings["slots"]
        params.n_ctx = settings["window"] * settings["slots"]
        params.cpuparams.n_threads = settings["threads"]
        params.ui = False
        params.warmup = False
        server = xllamacpp.Server(params)
        answer.write(json.dumps({"address": server.listening_address}) + "\n")
    except Exception as error:
        # The parent turns this into its own error with a remedy; the engine's log is on stderr.
        answer.write(json.dumps({"error": f"{type(error).__name__}: {error}"}) + "\n")
        answer.flush()
        raise SystemExit(1) from error
    answer.flush()
    sys.stdin.read()
    # The engine's threads have no work worth waiting for.
    os._exit(0)


if __name__ == "__main__":
    main()
