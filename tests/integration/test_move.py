"""files/move does what mv does."""

import contextlib
import http.client
import threading

import pytest

from cay_harness import wait_until

pytestmark = pytest.mark.core


def move(api, box, source, goal, **fields):
    return api.file(box, "move", moves=[{"from": source, "to": goal}], **fields)


def test_a_file_goes_into_a_directory(api, box):
    api.sh(box, "mkdir dir; echo 1 >a; ln -s dir link; echo 2 >b")
    move(api, box, "a", "dir").ok()
    move(api, box, "b", "link").ok()  # a link to a directory is one
    assert api.sh(box, "cat dir/a dir/b; ls") == "1\n2\ndir\nlink\n"


def test_a_directory_goes_into_a_directory_and_replaces_none(api, box):
    api.sh(box, "mkdir a b; echo 1 >a/x; echo 2 >b/y")
    move(api, box, "a", "b").ok()
    assert api.sh(box, "find b | sort") == "b\nb/a\nb/a/x\nb/y\n"
    api.sh(box, "mkdir a; echo 3 >a/z")
    move(api, box, "a", "b").failed(409)
    assert api.sh(box, "cat a/z; ls b/a") == "3\nx\n"
    api.sh(box, "rm b/a/x")
    move(api, box, "a", "b").failed(409)  # not even an empty one
    assert api.sh(box, "cat a/z; ls b/a") == "3\n"


def test_nothing_goes_into_itself(api, box):
    api.sh(box, "mkdir -p d/e; echo 1 >f; ln -s d/e l")
    for goal in ("d", "d/e", "d/new", "l"):
        said = move(api, box, "d", goal).failed(400)
        assert "into itself" in said["error"]
    move(api, box, "f", "f").failed(409)
    move(api, box, "d", "/workspace").failed(409)
    assert api.sh(box, "cat f; find d") == "1\nd\nd/e\n"


def test_a_file_replaces_a_file_and_neither_kind_the_other(api, box):
    api.sh(box, "echo new >a; echo old >b; mkdir d; mkdir -p e/a; echo x >f")
    move(api, box, "a", "b").ok()
    assert api.sh(box, "cat b; ls") == "new\nb\nd\ne\nf\n"
    move(api, box, "d", "f").failed(409)
    api.sh(box, "echo 3 >a")
    move(api, box, "a", "e").failed(409)  # e/a is a directory
    assert api.sh(box, "cat a f; ls -d d e/a") == "3\nx\nd\ne/a\n"


def test_links_are_moved_as_links(api, box):
    api.sh(box, "mkdir d; ln -s nowhere l; echo 1 >t; ln -s t over; echo 2 >n")
    move(api, box, "l", "d").ok()
    move(api, box, "n", "over").ok()
    assert api.sh(box, "readlink d/l; cat t over; test ! -L over") == "nowhere\n1\n2\n"
    move(api, box, "d/l", "/dev/shm", anywhere=True).ok()
    assert api.sh(box, "readlink /dev/shm/l; ls d") == "nowhere\n"


def test_one_of_two_names_of_a_file_goes(api, box):
    api.sh(box, "echo 1 >a; ln a b")
    move(api, box, "a", "b").ok()
    assert api.sh(box, "cat b; stat -c %h b; ls") == "1\n1\nb\n"


def test_a_slash_at_the_end_is_a_directory(api, box):
    api.sh(box, "echo 1 >f; mkdir d")
    assert "not a directory" in move(api, box, "f", "new/").failed(400)["error"]
    move(api, box, "d", "new/").ok()
    move(api, box, "f", "new/").ok()
    assert api.sh(box, "cat new/f") == "1\n"


@pytest.mark.parametrize("there", ["/dev/shm", "/tmp"])
def test_it_crosses_the_mounts_of_the_sandbox(api, box, there):
    api.sh(box, "mkdir -p d/sub; echo 1 >d/sub/f; chmod 741 d/sub/f; ln -s sub/f d/l; mkfifo -m 622 d/fifo;"
                "touch -d @1000000000 d/sub/f d/fifo d; echo 2 >f")
    move(api, box, "d", there, anywhere=True).ok()
    assert api.sh(box, f"cd {there}; stat -c '%A %Y' d/sub/f d/fifo; stat -c %Y d; cat d/l; ls /workspace") == (
        "-rwxr----x 1000000000\nprw--w--w- 1000000000\n1000000000\n1\nf\n")
    api.sh(box, f"echo old >{there}/f")
    move(api, box, "f", there, anywhere=True).ok()
    assert api.sh(box, f"cat {there}/f; ls -A /workspace") == "2\n"
    api.sh(box, "mkdir d")
    move(api, box, "d", there, anywhere=True).failed(409)
    move(api, box, there + "/d", "back", anywhere=True).ok()
    assert api.sh(box, f"cat back/sub/f; ls -A {there} | grep -c cay; true") == "1\n0\n"


def test_what_cannot_be_removed_is_not_copied(api, box):
    move(api, box, "/dev/shm", "/workspace", anywhere=True).failed(409)
    move(api, box, "/usr/bin/env", "/workspace", anywhere=True).failed(400, code="permission_denied")
    move(api, box, "/", "/workspace", anywhere=True).failed(400)
    assert api.sh(box, "ls -A") == ""
    api.sh(box, "touch /dev/shm/still")


def test_a_copy_that_nobody_waits_for_ends(own):
    """Who gave up may try again: two would not be at work, and nothing moves behind one's back."""
    def give_up():
        with api.again() as other, contextlib.suppress(OSError, http.client.HTTPException):
            move(other, id, "/dev/shm/t", "/workspace/t", anywhere=True)

    with own.api(timeout=60) as api:
        id = api.create()["id"]
        api.sh(id, "mkdir /dev/shm/t; cd /dev/shm/t; seq 30000 | xargs touch", timeout=60)
        mover = threading.Thread(target=give_up)
        mover.start()
        wait_until(lambda: int(api.sh(id, "ls -A /workspace/.cay-*.tmp 2>/dev/null | wc -l")) > 100)
        own.kill9()
        mover.join()
        own.start()
        wait_until(lambda: not api.sh(id, "ls -A /workspace"), timeout=30)
        assert api.sh(id, "ls /dev/shm/t | wc -l").strip() == "30000"
        move(api, id, "/dev/shm/t", "/workspace/t", anywhere=True).ok()
        assert api.sh(id, "ls /workspace/t | wc -l; ls /dev/shm").strip() == "30000"
