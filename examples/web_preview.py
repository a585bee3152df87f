"""A web preview: a server in a sandbox, reached by a port of this machine, while its pages are being written.

    python examples/web_preview.py

On a terminal it stays until you press Enter, to be looked at in a browser.
"""

import sys
from urllib.request import urlopen

from cay.sync import Sandbox

PAGE = "<!doctype html><title>{title}</title><h1>{title}</h1>"


def read(url: str) -> str:
    with urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def main() -> None:
    with Sandbox.create() as box:
        box.filesystem.write("site/index.html", PAGE.format(title="Draft"))

        # A server runs on: exec_stream() hands it over. Leaving the block ends it.
        with box.exec_stream("python3 -u -m http.server --directory site 8000") as server:
            next(event for event in server if "Serving" in event.text)  # it says so when it listens

            port = box.ports.expose(8000)  # a free port of this machine; nobody else's machine can reach it
            url = f"http://127.0.0.1:{port.host_port}/"
            print("the preview:", url if sys.stdout.isatty() else "http://127.0.0.1:…/")
            print(read(url))

            # The next version is there as soon as it is written.
            box.filesystem.write("site/index.html", PAGE.format(title="Final"))
            page = read(url)
            print(page)
            assert page == PAGE.format(title="Final")

            # Without a port of the host: a request through the daemon.
            print("missing pages are", box.ports.request(8000, "/missing").status_code)
            if sys.stdin.isatty():
                input("Enter ends it ")


if __name__ == "__main__":
    main()
