"""The page at /docs: whole, without anything from elsewhere, and the same as /openapi.json."""

import http.client
from html.parser import HTMLParser

import pytest

pytestmark = pytest.mark.full


class Page(HTMLParser):
    EMPTY = ("meta",)

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.words = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        assert tag != "script" and not {"src", "onclick"} & set(attributes)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if "href" in attributes:
            self.links.append(attributes["href"])
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def ask(daemon, method="GET", path="/docs", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    connection.request(method, path, headers=headers)
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply, text


def test_the_page_has_every_operation_and_object(shared, api):
    reply, text = ask(shared)
    assert reply.status == 200 and reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
    page = Page(text)
    assert not page.open and len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert {link for link in page.links if not link.startswith("#")} == {"openapi.json"}
    document = api.get("//openapi.json").ok()
    operations = [o for p in document["paths"].values() for o in p.values()]
    assert {o["operationId"] for o in operations} | set(document["components"]["schemas"]) <= set(page.ids)
    text = "".join(page.words)
    for operation in operations:
        assert operation["summary"] in text


def test_who_has_no_token_reads_it_too(daemon_of):
    daemon = daemon_of(env={"CAY_AUTH_TOKEN": "secret"}).start()
    assert ask(daemon)[0].status == 200
    assert ask(daemon, path="/openapi.json")[0].status == 401
    assert ask(daemon, method="POST")[0].status == 401
    assert ask(daemon, Host="evil.example")[0].status == 403
