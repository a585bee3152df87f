"""A server of git repositories as there are many: smart HTTP, and nobody gets in without name and password."""

import base64
import gzip
import os
import subprocess

ENV = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null", GIT_AUTHOR_NAME="Ada", GIT_AUTHOR_EMAIL="ada@test",
           GIT_COMMITTER_NAME="Ada", GIT_COMMITTER_EMAIL="ada@test")


def git(*words, cwd=None):
    return subprocess.run(["git", *words], cwd=cwd, env=ENV, check=True, capture_output=True, text=True).stdout


class Forge:
    """Repositories below `folder`, at https://HOST/NAME.git of a cay_internet.Web."""

    def __init__(self, web, host, folder, user="ada", password="pa ss%w\\ord="):
        self.host, self.folder, self.user, self.password = host, folder, user, password
        self.let_in, self.turned_away = [], []
        web.sites[host] = self.answer

    def repository(self, name="demo", commits=3):
        work, bare = self.folder / f"{name}-work", self.folder / f"{name}.git"
        work.mkdir(parents=True)
        git("init", "-q", "-b", "main", cwd=work)
        for number in range(commits):
            (work / f"file{number}").write_text("line\n" * (number + 1))
            git("add", ".", cwd=work)
            git("commit", "-q", "-m", f"commit {number}", cwd=work)
        git("branch", "side", cwd=work)
        git("clone", "-q", "--bare", str(work), str(bare))
        git("-C", str(bare), "config", "http.receivepack", "true")
        return f"https://{self.host}/{name}.git"

    def heads(self, name="demo"):
        return git("-C", str(self.folder / f"{name}.git"), "log", "--all", "--format=%s").split("\n")

    def answer(self, request):
        given = request.headers.get("authorization", "")
        word = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        if given != f"Basic {word}":
            self.turned_away.append(given)
            return 401, "text/plain", b"who are you?\n", ("WWW-Authenticate", 'Basic realm="forge"')
        self.let_in.append(request.path)
        return self.backend(request)

    def backend(self, request):
        path, _, query = request.path.partition("?")
        body = request.body or b""
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        env = dict(ENV, GIT_PROJECT_ROOT=str(self.folder), GIT_HTTP_EXPORT_ALL="1", PATH_INFO=path, QUERY_STRING=query, REMOTE_USER=self.user,
                   REQUEST_METHOD=request.method, CONTENT_TYPE=request.headers.get("content-type", ""), CONTENT_LENGTH=str(len(body)),
                   GIT_PROTOCOL=request.headers.get("git-protocol", ""))
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True)
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        told = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        return int(told.get("Status", "200").split()[0]), told.get("Content-Type", "text/plain"), rest
