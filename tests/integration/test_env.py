"""Variables of a sandbox: get, set, list, delete; commands and /etc/environment see them."""

import pytest

pytestmark = pytest.mark.core


def test_set_is_seen_by_get_list_exec_and_the_file(api, box):
    answer = api.post(f"/sandboxes/{box}/env", {"vars": {"ONE": "1", "TWO": "two words"}}).ok()
    assert sorted(answer["set"]) == ["ONE", "TWO"] and answer["count"] == 2
    assert api.post(f"/sandboxes/{box}/env/get", {"key": "TWO"}).ok() == {
        "key": "TWO", "value": "two words", "exists": True}
    listed = api.get(f"/sandboxes/{box}/env").ok()
    assert listed["vars"]["ONE"] == "1" and listed["count"] == len(listed["vars"])
    assert {"PATH", "HOME", "HOSTNAME"} <= set(listed["vars"])
    assert api.sh(box, "echo $ONE $TWO") == "1 two words\n"
    assert "ONE=1" in api.sh(box, "cat /etc/environment").splitlines()


def test_a_second_set_starts_its_own_line(api, box):
    api.post(f"/sandboxes/{box}/env", {"vars": {"A": "1"}}).ok()
    api.post(f"/sandboxes/{box}/env", {"vars": {"B": "2"}}).ok()
    api.post(f"/sandboxes/{box}/env", {"vars": {"A": "3"}}).ok()
    lines = api.sh(box, "cat /etc/environment").splitlines()
    assert lines.count("A=3") == 1 and "A=1" not in lines and lines.count("B=2") == 1


def test_delete_takes_it_away_everywhere(api, box):
    api.post(f"/sandboxes/{box}/env", {"vars": {"GONE": "x"}}).ok()
    assert api.post(f"/sandboxes/{box}/env/delete", {"key": "GONE"}).ok() == {"deleted": "GONE"}
    assert api.post(f"/sandboxes/{box}/env/get", {"key": "GONE"}).ok() == {
        "key": "GONE", "value": None, "exists": False}
    assert "GONE" not in api.get(f"/sandboxes/{box}/env").ok()["vars"]
    assert api.sh(box, "echo ${GONE-unset}; grep -c GONE /etc/environment || true").split() == [
        "unset", "0"]


def test_what_was_never_set_does_not_exist(api, box):
    answer = api.post(f"/sandboxes/{box}/env/get", {"key": "NEVER"}).ok()
    assert answer == {"key": "NEVER", "value": None, "exists": False}


def test_values_are_kept_as_they_are(api, box):
    for n, value in enumerate(("", "a=b", "two\nlines", 'q"uo\'te', "$HOME `x`", "ü漢", "#x")):
        api.post(f"/sandboxes/{box}/env", {"vars": {"V": value}}).ok()
        assert api.post(f"/sandboxes/{box}/env/get", {"key": "V"}).ok()["value"] == value
        assert api.sh(box, 'printf %s "$V"') == value
        assert api.post(f"/sandboxes/{box}/env", {"vars": {"W": f"next {n}"}}).ok()
        assert f"W=next {n}" in api.sh(box, "cat /etc/environment").splitlines()


def test_bad_variables_are_refused_and_none_is_set(api, box):
    for vars in ({}, None, [], "A=1", {"A B": "x"}, {"A-B": "x"}, {"": "x"}, {"A": 1}, {"A": None}, {"A": ["x"]}, {"A\n": "x"},
                 {"A": "a\0b"}):
        body = {"vars": {**vars, "GOOD": "x"}} if isinstance(vars, dict) and vars else {"vars": vars}
        api.post(f"/sandboxes/{box}/env", body).failed(400)
    assert "GOOD" not in api.get(f"/sandboxes/{box}/env").ok()["vars"]


def test_bad_keys_are_refused(api, box):
    for key in ("A B", "", "A=B", "ü", None, 7, "A\0"):
        api.post(f"/sandboxes/{box}/env/get", {"key": key}).failed(400)
        api.post(f"/sandboxes/{box}/env/delete", {"key": key}).failed(400)


def test_variables_survive_the_daemon(own):
    with own.api() as api:
        id = api.create(env={"MADE": "m"})["id"]
        api.post(f"/sandboxes/{id}/env", {"vars": {"SET": "s"}}).ok()
        own.kill9()
        own.start()
        assert api.sh(id, "echo $MADE $SET") == "m s\n"
