"""A claim has one holder at a time, whatever happens when."""

import json
import os
import subprocess
import time

import pytest

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
    assert claims.held() == {"a"} and claim.heartbeat()
    assert claims.take("b") and claims.held() == {"a", "b"}


def test_a_released_claim_can_be_taken(claims):
    claims.take("a").release()
    assert claims.held() == set()
    again = claims.take("a")
    assert again.heartbeat()
    # The old number is never used again: two could see it free at once.
    assert files(claims) == ["a.000001.claim", "a.000002.claim"]
    again.release()
    assert files(claims) == ["a.000002.claim"]
    claims.forget("a")
    assert files(claims) == []


@pytest.mark.parametrize("has_heartbeat", [True, False])
def test_a_claim_may_be_forgotten_while_its_holder_checks_it(
    claims, monkeypatch, has_heartbeat
):
    """Another process took a claim on work that had just been finished."""
    claim = claims.take("a")
    newest = claims._newest

    def newest_then_forgotten(name):
        number = newest(name)
        claims._remove(name, number)
        return number

    monkeypatch.setattr(claims, "_newest", newest_then_forgotten)
    if has_heartbeat:
        assert not claim.heartbeat()
    claim.release()
    assert files(claims) == []


def test_names_may_have_dots_and_begin_alike(claims):
    assert claims.take("lr=0.001.2") and claims.take("lr=0.001")
    assert claims.held() == {"lr=0.001.2", "lr=0.001"}


def test_a_claim_without_a_heartbeat_for_ten_minutes_is_lost(claims):
    first = claims.take("a")
    age(claims, 590)
    assert claims.take("a") is None
    age(claims, 610)
    second = claims.take("a")
    assert second is not None
    assert second.heartbeat() and not first.heartbeat()
    first.release()  # takes nothing away from the new holder
    assert claims.held() == {"a"} and second.heartbeat()


def test_a_heartbeat_renews_a_claim(claims):
    claim = claims.take("a")
    age(claims, 599)
    assert claim.heartbeat()
    assert claims.take("a") is None


def test_a_dead_process_of_this_machine_holds_no_claim(claims):
    """It need not be waited for: kill -9 and start again."""
    claims.take("a")
    [name] = files(claims)
    path = os.path.join(claims.folder, name)
    holder = json.load(open(path))
    dead = subprocess.Popen(["true"])
    dead.wait()
    json.dump({**holder, "process": dead.pid}, open(path, "w"))
    assert claims.take("a").heartbeat()


def test_a_claim_of_another_machine_is_held_until_it_is_stale(claims):
    claims.take("a")
    [name] = files(claims)
    path = os.path.join(claims.folder, name)
    holder = json.load(open(path))
    json.dump({**holder, "machine": "another", "process": 1}, open(path, "w"))
    assert claims.take("a") is None
    age(claims, 601)
    assert claims.take("a")


def test_a_claim_that_is_still_empty_is_held(claims):
    open(os.path.join(claims.folder, "a.000001.claim"), "w").close()
    assert claims.take("a") is None
    assert claims.held() == {"a"}


def test_of_two_who_see_a_stale_claim_one_takes_it(claims):
    claims.take("a")
    age(claims, 601)
    newest = claims._newest
    winner = claims_lib.Claims(claims.folder)

    def slow(name):
        number = newest(name)
        claims._newest = newest
        assert winner.take("a")  # between the check and the taking
        return number

    claims._newest = slow
    assert claims.take("a") is None
