"""Whether something can be fetched, answered within seconds."""

import threading

import requests

SECONDS = 20


def problem(url):
    """Why a server cannot be reached, or None if it answers.

    The look-up runs in a thread of its own, since a name server that does
    not answer cannot be interrupted.
    """
    found = ["no answer"]

    def knock():
        try:
            requests.head(url, timeout=SECONDS / 2, allow_redirects=True)
            found[0] = None
        except requests.RequestException as error:
            found[0] = type(error).__name__

    thread = threading.Thread(target=knock, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return found[0]
