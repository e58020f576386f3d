"""Whether a server can be reached, answered within seconds."""

import threading

TIMEOUT_SECONDS = 20
REFUSALS = (407, 502, 503, 504)  # a proxy's or a gateway's


def find_problem(url: str) -> str | None:
    """Returns why a server cannot be reached; None if it answers.

    The request runs in a thread of its own, since a name server that does
    not answer cannot be interrupted.
    """
    import requests  # takes a while, and few commands ask for it

    problem: str | None = "no answer"

    def request() -> None:
        nonlocal problem
        try:
            response = requests.head(
                url, timeout=TIMEOUT_SECONDS / 2, allow_redirects=True
            )
            refused = response.status_code in REFUSALS
            problem = f"status {response.status_code}" if refused else None
        except requests.RequestException as error:
            problem = type(error).__name__

    thread = threading.Thread(target=request, daemon=True)
    thread.start()
    thread.join(TIMEOUT_SECONDS)
    return problem
