"""Whether something can be fetched, answered within seconds."""

import threading

import requests

SECONDS = 20
REFUSALS = (407, 502, 503, 504)  # a proxy's or a gateway's


def problem(url):
    """Why a server cannot be reached, or None if it answers.

    The look-up runs in a thread of its own, since a name server that does
    not answer cannot be interrupted.
    """
    found = ["no answer"]

    def knock():
        try:
            answer = requests.head(
                url, timeout=SECONDS / 2, allow_redirects=True
            )
            refused = answer.status_code in REFUSALS
            found[0] = f"status {answer.status_code}" if refused else None
        except requests.RequestException as error:
            found[0] = type(error).__name__

    thread = threading.Thread(target=knock, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return found[0]
