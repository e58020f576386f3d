"""Claims: one holder each, whatever happens when."""

import json
import os
import subprocess
import sys
import time

import pytest

from tests import commands
from tf_transfer.sweeps import claims as claims_lib


@pytest.fixture
def claims(tmp_path):
    return claims_lib.Claims(str(tmp_path / "claims"))


def files(claims):
    return sorted(os.listdir(claims.folder))


def age(claims, seconds):
    for name in os.listdir(claims.folder):
        then = time.time() - seconds
        os.utime(os.path.join(claims.folder, name), (then, then))


def test_a_claim_has_one_holder(claims):
    claim = claims.take("a")
    assert claims.take("a") is None
    assert claims.held() == {"a"} and claim.beat()
    assert claims.take("b") and claims.held() == {"a", "b"}


def test_what_is_let_go_can_be_taken(claims):
    claims.take("a").release()
    assert claims.held() == set()
    again = claims.take("a")
    assert again.beat()
    # The old number is never taken again: two could see it free at once.
    assert files(claims) == ["a.000001.claim", "a.000002.claim"]
    again.release()
    assert files(claims) == ["a.000002.claim"]
    claims.forget("a")
    assert files(claims) == []


@pytest.mark.parametrize("beats", [True, False])
def test_work_may_be_forgotten_while_its_holder_looks(
    claims, monkeypatch, beats
):
    """Another took a claim on work that ended a moment before."""
    claim = claims.take("a")
    newest = claims._newest

    def forgotten_then(name):
        number = newest(name)
        claims._remove(name, number)
        return number

    monkeypatch.setattr(claims, "_newest", forgotten_then)
    if beats:
        assert not claim.beat()
    claim.release()
    assert files(claims) == []


def test_names_may_have_dots_and_begin_alike(claims):
    assert claims.take("lr=0.001.2") and claims.take("lr=0.001")
    assert claims.held() == {"lr=0.001.2", "lr=0.001"}


def test_a_holder_that_is_silent_for_ten_minutes_loses_it(claims):
    first = claims.take("a")
    age(claims, 590)
    assert claims.take("a") is None
    age(claims, 610)
    second = claims.take("a")
    assert second is not None
    assert second.beat() and not first.beat()
    first.release()  # takes nothing away from the new holder
    assert claims.held() == {"a"} and second.beat()


def test_a_beat_keeps_it(claims):
    claim = claims.take("a")
    age(claims, 599)
    assert claim.beat()
    assert claims.take("a") is None


def test_a_dead_process_of_this_machine_holds_nothing(claims):
    """It need not be waited for: kill -9 and start again."""
    code = (
        "from tf_transfer.sweeps import claims\n"
        f"claims.Claims({claims.folder!r}).take('a')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=commands.ROOT)
    [name] = files(claims)
    assert claims.take("a").beat()
    assert name == "a.000001.claim"


def test_a_process_of_another_machine_is_waited_for(claims):
    claims.take("a")
    [name] = files(claims)
    path = os.path.join(claims.folder, name)
    known = json.load(open(path))
    json.dump({**known, "machine": "another", "process": 1}, open(path, "w"))
    assert claims.take("a") is None
    age(claims, 601)
    assert claims.take("a")


def test_a_claim_that_is_being_written_is_held(claims):
    open(os.path.join(claims.folder, "a.000001.claim"), "w").close()
    assert claims.take("a") is None
    assert claims.held() == {"a"}


def test_whoever_saw_the_same_stale_claim_first_creates_the_next(claims):
    claims.take("a")
    age(claims, 601)
    newest = claims._newest
    winner = claims_lib.Claims(claims.folder)

    def slow(name):
        number = newest(name)
        claims._newest = newest
        assert winner.take("a")  # between the look and the taking
        return number

    claims._newest = slow
    assert claims.take("a") is None
