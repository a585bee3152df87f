"""The first hour with cay, typed into a real terminal (tmux) by hands that know docker."""

import os
import re
import signal
import subprocess

import pytest

from cay_harness import CAY, cli_environment, read_text, wait_until

pytestmark = [pytest.mark.full, pytest.mark.needs("program:tmux")]

BASH = r"env 'PS1=<\#:$?> ' bash --norc --noprofile"
PROMPT = re.compile(r"<(\d+):(\d+)>")


def has_ended(pid):
    """Also before the machine's first process, which takes its time, has reaped it."""
    return read_text(f"/proc/{pid}/stat").rpartition(") ")[2][:1] in ("", "Z")


class Terminal:
    """A shell in tmux. Its prompt counts the commands, so that the end of each is an event."""

    def __init__(self, daemon, folder, name, shell=BASH):
        self.name = name
        self.env = cli_environment(daemon, TERM="xterm", TMUX_TMPDIR=str(folder), HISTFILE="/dev/null",
                                   PATH=f"{os.path.dirname(CAY)}:{os.environ['PATH']}",
                                   HOME=str(folder), LC_ALL="C.UTF-8")
        self.env.pop("TMUX", None)
        self.tmux("new-session", "-d", "-x", "180", "-y", "50", "-c", str(folder), shell)

    def tmux(self, *words):
        return subprocess.run(["tmux", "-L", self.name, "-f", "/dev/null", *words], env=self.env,
                              check=True, capture_output=True, text=True, timeout=60).stdout

    def close(self):
        pid = int(self.tmux("display-message", "-p", "#{pid}"))
        self.tmux("kill-server")
        wait_until(lambda: has_ended(pid), what="the end of tmux")

    def screen(self):
        return self.tmux("capture-pane", "-p", "-J", "-S", "-")

    def keys(self, *names):
        self.tmux("send-keys", *names)

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def see(self, pattern):
        found = []

        def there():
            found[:] = [self.screen()]
            return re.search(pattern, found[0], re.M)

        try:
            return wait_until(there, 60)
        except AssertionError:
            raise AssertionError(f"{pattern!r} is not to be seen:\n{found[0]}") from None

    def begin(self, line):
        """Types a line; what follows is to be ended by end()."""
        wait_until(lambda: PROMPT.search(self.screen()), 60, "a prompt")
        self.at = int(PROMPT.findall(self.screen())[-1][0])
        self.type(line)
        self.keys("Enter")

    def end(self):
        """The output of the line, and its status."""
        after = self.see(rf"<{self.at + 1}:(\d+)>")
        text = self.screen()
        text = text[max(text.find(f"<{self.at}:"), 0):text.index(after[0])]
        return text.partition("\n")[2], int(after[1])

    def do(self, line, status=0):
        self.begin(line)
        text, got = self.end()
        assert got == status, f"{line}: {got}\n{text}"
        return text


@pytest.fixture
def terminal(shared, tmp_path):
    made = []

    def new(**how):
        made.append(Terminal(shared, tmp_path, f"cay{len(made)}", **how))
        return made[-1]

    yield new
    for t in made:
        t.close()


@pytest.fixture
def hands(terminal):
    return terminal()


@pytest.fixture
def web(hands, api):
    """A sandbox that is called so, made by hand. It is gone for the next test also when this one has lost its prompt."""
    hands.do("cay create --name web")
    try:
        yield "web"
        hands.begin("cay rm web")
        hands.end()
    finally:
        api.delete("/sandboxes/web")


def test_commands_need_no_dashes(hands, web):
    hands.do("cay exec web touch -- f1 f2")
    assert "f1" in hands.do("cay exec web ls -l")
    assert hands.do("cay exec web 'ls | wc -l'") == "2\n"
    assert hands.do("cay exec web -- echo --flag -x") == "--flag -x\n"
    assert hands.do("cay run host echo -n hi; echo") == "hi\n"
    assert hands.do("cay run --rm -- echo hello") == "hello\n"
    hands.do("cay exec web sh -c 'exit 7'", status=7)
    assert "stand before it" in hands.do("cay exec web -it bash", status=2)


def test_a_loop_keeps_its_input(hands, web):
    hands.do("printf 'web\\nweb\\nweb\\n' > ids")
    assert hands.do("while read id; do cay exec $id echo in; done < ids") == "in\nin\nin\n"
    assert hands.do("cay exec -i web wc -l < ids") == "3\n"
    assert hands.do("cay exec web wc -l < ids") == "0\n"


def test_it_is_a_terminal_to_type_into(hands, web):
    hands.begin("cay exec -it web bash --norc")
    hands.see(r"bash-\S+[#$] $|[#$] ?$")
    hands.type("echo in-$((40 + 2)); stty size")
    hands.keys("Enter")
    hands.see(r"^in-42\n50 180$")
    hands.type("exit 3")
    hands.keys("Enter")
    assert hands.end()[1] == 3
    hands.begin("cay exec -t web sh -c 'test -t 1 && echo tty; sleep 1000'")
    hands.see(r"^tty")
    hands.keys("C-c")
    assert hands.end()[1] == 130


def test_variables_are_passed_on(hands, web):
    hands.do("export MINE=own; printf '# note\\nFILED=yes\\nMINE\\n' > vars")
    assert hands.do("cay exec -e MINE -e NONE -e X=1 web sh -c 'echo $MINE-$NONE-$X'") == "own--1\n"
    assert hands.do("cay exec --env-file vars web sh -c 'echo $MINE-$FILED'") == "own-yes\n"
    assert hands.do("cay exec -w /tmp -u nobody web sh -c 'pwd; id -un'") == "/tmp\nnobody\n"
    hands.do("cay env set web A=1 MINE")
    assert "\nA=1\n" in "\n" + hands.do("cay env list web")
    assert hands.do("cay env get web MINE; cay exec web sh -c 'echo $A'") == "own\n1\n"
    hands.do("cay env unset web A")
    assert "no variable" in hands.do("cay env get web A", status=1)


def test_jobs(hands, web):
    assert "No jobs" in hands.do("cay jobs")
    hands.do("j=$(cay exec -d web 'echo begun; while ! test -e go; do sleep 0.05; done; exit 5')")
    listed = hands.do("cay jobs")
    assert "running" in listed and "echo begun" in listed
    hands.begin("cay job logs -f $j")
    hands.see("^begun")
    hands.keys("C-c")
    hands.end()
    hands.begin("cay job wait $j; echo status $?")
    hands.keys("")
    subprocess.run([CAY, "exec", "web", "touch", "go"], env=hands.env, check=True, timeout=60)
    assert hands.end()[0] == "status 5\n"
    hands.do("j=$(cay exec -d web sleep 1000)")
    hands.do("cay job stop ${j:0:12}")
    hands.do("cay job wait $j", status=137)
    hands.do("cay exec web 'kill -9 $$'", status=137)
    assert re.search(r" signal 9 +\w+ +kill -9", hands.do("cay jobs --all"))
    assert "no job" in hands.do("cay job wait bg_nothing", status=125)


def test_a_terminal_can_be_left_and_come_back_to(hands, web):
    id = hands.do("j=$(cay exec -dt web bash --norc); echo $j").strip()
    hands.begin("cay attach web $j")
    hands.see(r"bash-\S+[#$] $|[#$] ?$")
    hands.type("kept=$((40 + 2))")
    hands.keys("Enter")
    hands.keys("C-p", "C-q")
    shown, status = hands.end()
    assert "it goes on; `cay attach web ex_" in shown and status == 0
    hands.begin("cay attach web $j")
    hands.type("echo still-$kept")
    hands.keys("Enter")
    hands.see(r"^still-42$")
    hands.keys("C-p")
    hands.keys("Enter")  # it was not for leaving: the line before comes again
    hands.see(r"^still-42\n(.*\n)+still-42$")
    found = subprocess.run(["pgrep", "-f", f"attach web {id}"], capture_output=True, check=True, text=True).stdout
    os.kill(int(found), signal.SIGHUP)
    assert hands.end()[1] == 129
    assert "running" in hands.do("cay jobs")
    hands.do("cay job stop $j")


def test_jobs_of_a_paused_sandbox_are_not_kept_from_the_reader(hands, web):
    hands.do("j=$(cay exec -d web sleep 1000); cay pause -q web")
    assert "web is paused, and its jobs are not seen until `cay resume`" in hands.do("cay jobs")
    assert "is paused" in hands.do("cay job stop ${j:0:12}", status=1)
    hands.do("cay create --name two; cay pause -q two")
    assert "2 sandboxes are paused" in hands.do("cay jobs")
    hands.do("cay rm two; cay resume -q web")
    assert "paused" not in hands.do("cay jobs")


def test_processes_and_what_they_use(hands, web):
    hands.do("cay exec -d web sleep 4321")
    pid = re.search(r"^ *(\d+) .* sleep 4321$", hands.do("cay ps web"), re.M)[1]
    for word in ("top web", "stats"):
        hands.begin(f"cay {word}")
        hands.see(r"sleep 4321" if "top" in word else r"^sbx_\w+ +web ")
        hands.type("q")
        assert hands.end()[1] == 0
    assert hands.do(f"cay kill -s KILL web {pid}") == f"{pid}\n"
    assert "which process" in hands.do("cay kill -s HUP web", status=2)
    hands.begin("cay kill web")
    hands.see(r"Killing web removes it with everything inside\. Go on\? \[y/N\] *$")
    hands.type("n")
    hands.keys("Enter")
    assert hands.end()[1] == 1
    assert re.search(r"^sbx_\w{24} +web +host +running", hands.do("cay ps"), re.M)


def test_ends_are_told_in_words(hands, web):
    said = hands.do("cay run -m 64 host python3 -c 'bytearray(400 << 20)'", status=137)
    assert "cay: killed: the sandbox's memory limit of 64 MiB was reached; raise it with --memory" in said
    assert "ended by signal 15 (SIGTERM)" in hands.do("cay exec web 'kill -TERM $$'", status=143)
    said = hands.do("cay exec web python3 -c 'import socket; socket.getaddrinfo(\"a.b\", 1)'", status=1)
    assert "cay: this sandbox has no network" in said
    hands.do("cay pause web")
    assert "cay resume ID" in hands.do("cay exec web true", status=125)
    hands.do("cay rm web")
    assert re.search(r"web was removed (just now|\d+ seconds? ago)", hands.do("cay exec web true", status=125))
    hands.do("cay create --name web")


def test_ls_shows_an_id_once_and_fits(hands, web):
    id = hands.do("cay create").strip()
    row = re.search(rf"^{id}.*$", hands.do("cay ls"), re.M)[0]
    assert row.count(id) == 1 and row.split()[1] == "-"
    hands.tmux("set-option", "-g", "window-size", "manual")
    hands.tmux("resize-window", "-x", "44", "-y", "30")
    hands.do("clear; cay ls")
    lines = [s for s in hands.tmux("capture-pane", "-p").splitlines() if s.startswith("sbx_")]
    assert len(lines) == 2 and all("…" in s and "host" in s for s in lines), lines
    hands.do(f"cay rm {id}")


def test_kill_asks_before_it_destroys_and_stop_keeps(hands, web):
    for answer in ("n", ""):
        hands.begin("cay kill web")
        hands.see(r"removes it with everything inside\. Go on\? \[y/N\] *$")
        hands.type(answer)
        hands.keys("Enter")
        text, status = hands.end()
        assert status == 1 and "cay stop web" in text
        hands.do("clear")
    assert "--yes" in hands.do("cay kill web < /dev/null", status=1)
    hands.do("cay exec web 'echo kept > note'; cay stop web")
    assert "stopped" in hands.do("cay ls")
    assert "cay start" in hands.do("cay exec web true", status=125)
    assert "kept" in hands.do("cay file read web note")
    hands.do("cay start web")
    assert "kept" in hands.do("cay exec web cat note")
    hands.begin("cay kill web")
    hands.see(r"\[y/N\] *$")
    hands.type("y")
    hands.keys("Enter")
    assert hands.end()[1] == 0
    assert "web was removed" in hands.do("cay inspect web", status=1)
    hands.do("cay create --name web")
    hands.do("cay kill -f web")
    hands.do("cay create --name web")


def test_names_and_limits(hands, web):
    id = re.search(r"sbx_\w{24}", hands.do("cay ls -q"))[0]
    assert id in hands.do("cay create --name web", status=1)
    for name in ("'a b'", "-x", "sbx_mine", "a/b", "''"):
        assert "cannot be a name" in hands.do(f"cay create --name {name}", status=2)
    assert "from 64 to 4096 MB" in hands.do("cay create -m 5", status=2)
    assert "from 0.5 to 4 cores" in hands.do("cay create --cpu 99", status=2)
    assert "from 60 to 86400 seconds" in hands.do("cay create --timeout 1s", status=2)
    assert "one of: " in hands.do("cay ls --status bogus", status=2)
    assert "expires in 2h" in hands.do("cay renew web 2h")
    assert "from 60 to 86400" in hands.do("cay renew web 1s", status=2)
    assert re.search(r"^host +host +- +- +- +yes$", hands.do("cay images"), re.M)
    for words in ("pause web", "inspect web", "logs web", "resume web", "commit --help"):
        hands.do(f"cay {words}")


def test_logs_of_a_sandbox_without_an_entrypoint_say_where_to_look(hands, web):
    said = hands.do("cay logs web")
    assert "web has no entrypoint" in said and "cay jobs --all web" in said
    hands.do("cay create --name quiet host true")
    assert hands.do("cay logs quiet") == ""
    hands.do("cay rm quiet")


def test_a_sandbox_that_runs_on(hands):
    id = hands.do("cay run -d --name bg host sh -c 'echo up; exec sleep 1000'").strip()
    assert re.fullmatch(r"sbx_\w{24}", id)
    hands.begin("cay logs -f bg")
    hands.see("^up")
    hands.keys("C-c")
    hands.end()
    assert hands.do("cay rm bg") == f"{id}\n"


def test_words_and_flags_of_other_tools_are_answered(hands):
    for word, hint in (("ssh web", "cay shell ID"),
                       ("push x", "image export"), ("login", "--password-stdin"),
                       ("imge ls", 'did you mean "image"'), ("restart web", "cay start"),
                       ("run --network host host true", "host.cay.internal"), ("create --pids 9", "processes"),
                       ("create --disk 1", "64 to 1048576 MB"), ("kill -9 web 3", "-s KILL"),
                       ("kill -KILL web 3", "-s KILL"), ("file download web a", "cay cp"), ("ls --json=yes", "no value"), ("cp --json a b", "--json")):
        assert hint in hands.do(f"cay {word}", status=2), word


def test_files_come_and_go(hands, web):
    hands.do("mkdir src && echo text > src/a && ln -s a src/l && touch -d 2001-01-01 src/a")
    hands.do("cay cp src web:")
    assert "l -> a" in hands.do("cay exec web ls -l src")
    hands.do("cay cp web:src back")
    assert hands.do("readlink back/l; date -r back/a +%Y") == "a\n2001\n"
    assert "src/l -> a" in hands.do("cay cp web:src - | tar tv")
    hands.do("tar c src | cay cp - web:/tmp")
    assert hands.do("cay exec web cat /tmp/src/l") == "text\n"
    assert "not for a terminal" in hands.do("cay cp web:src -", status=1)
    assert "--anywhere" in hands.do("cay file read web /etc/passwd", status=1)
    assert "root:" in hands.do("cay file read --anywhere web /etc/passwd")


def test_what_is_in_a_folder_goes_into_one_that_is_there(hands, web):
    hands.do("mkdir -m 700 src && echo text > src/a && ln src/a src/b")
    hands.do("cd src && cay cp . web: && cay cp ./. web:/tmp; cd ..")
    assert hands.do("cay exec web stat -c '%a %h' a /tmp/b") == "644 2\n644 2\n"
    assert "1777" in hands.do("cay exec web stat -c %a /tmp")
    hands.do("cay exec web 'mkdir -m 711 out && echo new > out/a && ln -s a out/l && mkdir out/d'")
    hands.do("mkdir here && chmod 750 here && echo old > here/a && cay cp web:out/. here")
    assert hands.do("cat here/l; echo $(ls here); stat -c %a here") == "new\na d l\n750\n"
    hands.do("mkdir all; cd all && cay cp web: .; cd ..")
    assert "out" in hands.do("ls all")


SHELLS = {
    "bash": (BASH, "source <(cay completion bash)"),
    "zsh": ("zsh -f", "PS1='<1:0> '; autoload -U compinit; compinit -D -u; source <(cay completion zsh)"),
    "fish": ("fish --no-config", "function fish_prompt; echo '<1:0> '; end; cay completion fish | source"),
}
EMPTY = r"\A\s*<\d+:0> ?\s*\Z"


@pytest.mark.parametrize("shell", [pytest.param(s, marks=pytest.mark.needs(f"program:{s}")) for s in SHELLS])
def test_completion_knows_names_and_values(terminal, web, shell, tmp_path):
    (tmp_path / "weather").write_text("a file that is no command")
    start, load = SHELLS[shell]
    hands = terminal(shell=start)
    hands.see(r"[>$%#] *$")
    hands.type(load + "; clear")
    hands.keys("Enter")
    hands.see(EMPTY)
    for typed, seen in (("cay exec we", r"cay exec web *$"), ("cay ls --status pau", r"--status paused *$"),
                        ("cay run --pull=nev", r"--pull=never *$"), ("cay renew --js", r"--json *$"),
                        ("cay comp", r"cay completion *$"), ("cay image cat", r"image catalog *$"),
                        ("cay cp web", r"cay cp web: *$"), ("cay rmi hos", r"rmi host *$")):
        hands.type(typed)
        hands.keys("Tab")
        hands.see(seen)
        hands.keys("C-u")
        hands.type("clear")
        hands.keys("Enter")
        hands.see(EMPTY)
    hands.type("cay exec web wea")
    hands.keys("Tab", "Tab")
    hands.type("X")
    hands.see("cay exec web weaX$")  # the file here is no command there
