# Runs code for cay in a sandbox's own Python, which needs nothing but this text. Requests come as
# lines of JSON on descriptor 3, answers go as lines of JSON to descriptor 4 (driver.h has both).
# Descriptors 1 and 2 become pipes of our own, so that what other programs and C code print is told
# too, in its order. Only modules that any start of Python has anyway are imported before they are
# needed, because every run waits for this.
import sys


def cay_driver():
    import _ast
    import _signal
    import _thread
    import io
    import os
    import select
    from time import perf_counter

    IN, OUT = 3, 4
    PIECE = 32 << 10  # characters of output in a line
    RESULT_MAX = 2 << 20  # bytes of one result as JSON
    VALUES_MAX = 20000  # in one result
    ROWS_MAX = 1000
    SETTLE_S = 5  # for who asked for a run to say that it has seen its end
    FLAGS_AST = 0x400 | 0x2000  # PyCF_ONLY_AST | PyCF_ALLOW_TOP_LEVEL_AWAIT
    AWAIT = 0x2000

    try:
        from _json import encode_basestring_ascii as quote, make_scanner

        class Form:
            strict = False
            object_hook = object_pairs_hook = None
            parse_float, parse_int, parse_constant = float, int, float
            memo = {}

        scan = make_scanner(Form())

        def parse(text):
            return scan(text, 0)[0]
    except ImportError:
        import json
        quote, parse = json.dumps, json.loads

    os.set_inheritable(IN, False)
    os.set_inheritable(OUT, False)
    me = os.getpid()
    lock = _thread.RLock()
    state = {"id": "", "running": False, "busy": 0, "pending": False, "count": 0, "group": 0,
             "truncated": False, "loop": None}
    space = sys.modules["__main__"].__dict__

    # ---- what goes out ----

    def text_json(text):
        # A surrogate without its other half has no form in UTF-8.
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        return quote(text)

    def give(line):
        """All of the line or none of it: an interrupt waits until it is out."""
        data = line.encode("utf-8")
        state["busy"] += 1
        try:
            with lock:
                while data:
                    data = data[os.write(OUT, data):]
        except OSError:
            os._exit(70)  # the code has closed it, or nobody is there any more
        finally:
            state["busy"] -= 1
        if state["pending"] and not state["busy"] and state["running"]:
            state["pending"] = False
            raise KeyboardInterrupt

    def frame(kind, rest):
        give('{"t":"%s","id":%s%s}\n' % (kind, quote(state["id"]), rest))

    def say(stream, text):
        for at in range(0, len(text), PIECE):
            frame("out", ',"s":%d,"d":%s' % (stream, text_json(text[at:at + PIECE])))

    # ---- what is printed ----

    class Raw(io.RawIOBase):
        """What Python code prints; of a forked child it goes the way of other programs."""

        def __init__(self, stream):
            self.stream = stream
            self.decode = new_decoder()

        def writable(self):
            return True

        def fileno(self):
            return self.stream

        def isatty(self):
            return False

        def write(self, data):
            data = bytes(data)
            if os.getpid() != me:
                return os.write(self.stream, data)
            with lock:
                drain()
                say(self.stream, self.decode.decode(data))
            return len(data)

    def new_decoder():
        import codecs
        return codecs.getincrementaldecoder("utf-8")("replace")

    pipes = {}

    def drain():
        """What others have printed up to now."""
        with lock:
            for fd, (stream, decoder) in pipes.items():
                while True:
                    try:
                        data = os.read(fd, 65536)
                    except OSError:
                        break
                    if not data:
                        break
                    say(stream, decoder.decode(data))

    def drain_always(fds):
        poll = select.poll()
        for fd in fds:
            poll.register(fd, select.POLLIN)
        while True:
            try:
                poll.poll()
                drain()
            except BaseException:
                return

    def open_pipes():
        for stream in 1, 2:
            mine, theirs = os.pipe()
            os.dup2(theirs, stream)
            os.close(theirs)
            mine = move_up(mine)
            os.set_blocking(mine, False)
            pipes[mine] = (stream, new_decoder())
        _thread.start_new_thread(drain_always, (list(pipes),))

    def move_up(fd):
        """Low numbers are the ones that code expects to get."""
        import fcntl
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)
        os.close(fd)
        return high

    def new_stream(stream, name):
        buffer = io.BufferedWriter(Raw(stream), 8192)
        text = io.TextIOWrapper(buffer, "utf-8", "backslashreplace", line_buffering=True)
        text.mode = "w"
        return text

    def flush():
        for stream in sys.stdout, sys.stderr:
            try:
                stream.flush()
            except Exception:
                pass
        drain()

    # ---- results ----

    def plain_value(value, left, depth=0):
        """What JSON can say of a value; ValueError when it cannot."""
        left[0] -= 1
        if left[0] < 0 or depth > 30:
            raise ValueError
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return value if -2**63 <= value < 2**63 else float(value)
        if kind is float:
            return value if value == value and abs(value) != float("inf") else None
        if isinstance(value, dict):
            return {str(k): plain_value(v, left, depth + 1) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain_value(v, left, depth + 1) for v in value]
        if hasattr(value, "tolist"):  # numpy
            return plain_value(value.tolist(), left, depth + 1)
        return str(value)

    def value_json(value):
        import json
        return json.dumps(plain_value(value, [VALUES_MAX]), ensure_ascii=False).encode(
            "utf-8", "replace").decode("utf-8")

    TYPES = {"text/plain": "text", "text/html": "html", "text/markdown": "markdown",
             "text/latex": "latex", "application/json": "json", "image/svg+xml": "svg",
             "application/vnd.cay.table+json": "table"}

    def give_form(mime, data, main):
        """One form of a result. What is too long is left out, but the end of a text."""
        kind = TYPES.get(mime) or ("image" if mime.startswith("image/") else "data")
        if isinstance(data, (bytes, bytearray)):
            import binascii
            data = binascii.b2a_base64(data, newline=False).decode()
        if mime in ("application/json", "application/vnd.cay.table+json"):
            text = value_json(data)
        else:
            data = str(data)
            if kind == "text" and len(data) > RESULT_MAX // 8:
                data, state["truncated"] = data[:RESULT_MAX // 8] + "…", True
            text = text_json(data)
        if len(text) > RESULT_MAX:
            state["truncated"] = True
            return
        frame("result", ',"r":{"type":%s,"mime":%s,"data":%s,"main":%s,"group":%d}' % (
            quote(kind), quote(mime), text, "true" if main else "false", state["group"]))

    def table_of(value):
        """{columns, rows} of a data frame, of pandas or of polars."""
        module = type(value).__module__.split(".")[0]
        name = type(value).__name__
        if module == "pandas" and name == "Series":
            value, name = value.to_frame(), "DataFrame"
        if module not in ("pandas", "polars") or name != "DataFrame":
            return None
        columns = [str(c) for c in value.columns]
        most = max(1, min(ROWS_MAX, (VALUES_MAX - 100) // (len(columns) + 2)))
        head = value.head(most)
        if module == "polars":
            return {"columns": columns, "rows": head.rows(), "total": len(value)}
        return {"columns": columns, "index": [plain_cell(v) for v in head.index],
                "rows": [[plain_cell(v) for v in row] for row in head.values.tolist()],
                "total": len(value)}

    def plain_cell(value):
        return value if isinstance(value, (int, float, str, bool)) else \
            None if value is None or value != value else str(value)

    METHODS = (("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"),
               ("_repr_svg_", "image/svg+xml"), ("_repr_png_", "image/png"),
               ("_repr_jpeg_", "image/jpeg"), ("_repr_latex_", "text/latex"),
               ("_repr_json_", "application/json"))

    def forms_of(value):
        """Pairs of a type and data, richest last; what fails is as if it was not there."""
        forms = {}
        if isinstance(value, type):
            return forms
        bundle = getattr(value, "_repr_mimebundle_", None)
        if callable(bundle):
            try:
                got = bundle(include=None, exclude=None)
                forms.update(got[0] if isinstance(got, tuple) else got)
            except Exception:
                pass
        for name, mime in METHODS:
            method = getattr(value, name, None)
            if mime in forms or not callable(method):
                continue
            try:
                got = method()
            except Exception:
                continue
            if got is not None:
                forms[mime] = got[0] if isinstance(got, tuple) else got
        return forms

    def display(*values, main=False, **ignored):
        """Shows values in all their forms, as notebooks do."""
        for value in values:
            flush()
            state["group"] += 1
            if is_figure(value):
                give_figure(value, main)
                continue
            forms = forms_of(value)
            if "text/plain" not in forms:
                try:
                    forms["text/plain"] = repr(value)
                except Exception as e:
                    forms["text/plain"] = "<%s whose repr() raises %s>" % (
                        type(value).__name__, type(e).__name__)
            if isinstance(value, (dict, list)) and "application/json" not in forms:
                forms["application/json"] = value
            try:
                table = table_of(value)
            except Exception:
                table = None
            if table:
                forms["application/vnd.cay.table+json"] = table
            for mime, data in forms.items():
                try:
                    give_form(str(mime), data, main)
                except (ValueError, TypeError, RecursionError):
                    pass  # it has no such form after all

    # ---- figures of matplotlib ----

    def is_figure(value):
        figure = sys.modules.get("matplotlib.figure")
        return figure is not None and isinstance(value, getattr(figure, "Figure", ()))

    def give_figure(figure, main=False):
        kind = str(sys.modules["matplotlib"].rcParams["savefig.format"])
        data = io.BytesIO()
        kind = "svg" if kind == "svg" else "png"
        figure.savefig(data, format=kind, bbox_inches="tight")
        if kind == "svg":
            give_form("image/svg+xml", data.getvalue().decode("utf-8"), main)
        else:
            give_form("image/png", data.getvalue(), main)

    def give_figures(*ignored, **ignored_too):
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None or not hasattr(pyplot, "get_fignums"):
            return
        flush()
        for number in pyplot.get_fignums():
            state["group"] += 1
            try:
                give_figure(pyplot.figure(number))
            finally:
                pyplot.close(number)

    class Figures:
        """Finds pyplot as it is found anyway, and makes its show() ours once it is loaded."""

        @staticmethod
        def find_spec(name, path=None, target=None):
            if name != "matplotlib.pyplot":
                return None
            from importlib.machinery import PathFinder
            spec = PathFinder.find_spec(name, path, target)
            if spec and spec.loader:
                load = spec.loader.exec_module

                def exec_module(module):
                    load(module)
                    module.show = give_figures

                spec.loader.exec_module = exec_module
            return spec

    # ---- exceptions ----

    OURS = ("<string>", "on_interrupt")

    def give_exception(e, name):
        import traceback
        tell_sources()
        at = e.__traceback__
        while at is not None and at.tb_frame.f_code.co_filename == "<string>":
            at = at.tb_next
        told = traceback.TracebackException(type(e), e, at, compact=True)
        while told.stack and (told.stack[-1].filename, told.stack[-1].name) == OURS:
            told.stack.pop()
        frames = [(f.filename, f.lineno, f.name, f.line) for f in told.stack]
        line = next((n for file, n, _, _ in reversed(frames) if file == name), None)
        if isinstance(e, SyntaxError) and e.filename == name:
            line = e.lineno
        text = "".join(told.format())
        try:
            value = str(e)
        except Exception:
            value = ""
        flush()
        say(2, text[:262144])
        places = ",".join('{"file":%s,"line":%s,"function":%s,"text":%s}' % (
            text_json(f), "null" if n is None else n, text_json(w), text_json((t or "")[:1000]))
            for f, n, w, t in frames[:50] + frames[50:][-50:])
        frame("error", ',"e":{"name":%s,"value":%s,"line":%s,"text":%s,"traceback":[%s]}' % (
            quote(type(e).__name__), text_json(value[:65536]), line if line else "null",
            text_json(text[:65536]), places))

    # ---- running ----

    def finish(value):
        """Of code with await in it: the loop is the same for all runs."""
        if not hasattr(value, "cr_code"):
            return value
        import asyncio
        if state["loop"] is None:
            state["loop"] = asyncio.new_event_loop()
        asyncio.set_event_loop(state["loop"])
        task = state["loop"].create_task(value)
        try:
            return state["loop"].run_until_complete(task)
        except BaseException:
            if not task.done():
                task.cancel()
                try:
                    state["loop"].run_until_complete(task)
                except BaseException:
                    pass
            raise

    def run_code(code, name):
        sources[name] = code
        tell_sources()
        tree = compile(code, name, "exec", FLAGS_AST, True)
        last = None
        if tree.body and isinstance(tree.body[-1], _ast.Expr) and not code.rstrip().endswith(";"):
            last = _ast.Expression(tree.body.pop().value)
        if tree.body:
            finish(eval(compile(tree, name, "exec", AWAIT, True), space))
        if last is not None:
            value = finish(eval(compile(last, name, "eval", AWAIT, True), space))
            if value is not None:
                space["_"] = value
                if not is_figure(value):  # pyplot has it, unless it was made without
                    display(value, main=True)
                elif getattr(value, "number", None) is None:
                    display(value, main=True)
        give_figures()
        tell_sources()

    sources = {}

    def tell_sources():
        """Whoever shows lines of code, as tracebacks do, finds those of the runs too."""
        linecache = sys.modules.get("linecache")
        while linecache is not None and sources:
            name, code = sources.popitem()
            linecache.cache[name] = (len(code), None, code.splitlines(True), name)

    def run(request, name):
        """The status of the run: 0, or what a process would have ended with."""
        code = request.get("code", "")
        status = 0
        try:
            try:
                state["running"] = True
                if state["pending"]:  # it came between "start" and here
                    raise KeyboardInterrupt
                run_code(code, name)
            finally:
                state["running"] = False
        except SystemExit as e:
            status = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
            if status and not isinstance(e.code, int):
                say(2, "%s\n" % (e.code,))
            if not once:
                give_exception(e, name)
                if sys.stdin.closed:  # by exit()
                    sys.stdin = open(0, closefd=False)
        except BaseException as e:
            status = 130 if isinstance(e, KeyboardInterrupt) else 1
            if once:
                space.pop("_", None)
            give_exception(e, name)
        return status & 255

    def serve(request):
        state["pending"] = False  # what came before was meant for others
        state["id"], state["truncated"] = request["id"], False
        state["count"] += 1
        if not waits:  # else the first thing that it says tells it
            frame("start", "")
        began = perf_counter()
        status = run(request, "<code>" if once else "<cell %d>" % state["count"])
        if os.getpid() != me:  # the code forked, and this is the child
            flush()
            os._exit(status)
        if once:
            leave()
        flush()
        for _, decoder in pipes.values():
            decoder.reset()
        frame("done", ',"exit":%d,"ms":%.3f,"truncated":%s' % (
            status, (perf_counter() - began) * 1000, "true" if state["truncated"] else "false"))
        waiting["unsettled"], waiting["until"] = state["id"], perf_counter() + SETTLE_S
        state["id"] = ""
        if once:
            os._exit(status)

    def leave():
        """What Python does before it ends."""
        try:
            threading = sys.modules.get("threading")
            if threading is not None:
                threading._shutdown()
            atexit = sys.modules.get("atexit")
            if atexit is not None:
                atexit._run_exitfuncs()
        except BaseException:
            pass

    # ---- what comes in ----

    def on_interrupt(signal, at):
        if state["busy"] or not state["running"]:
            state["pending"] = True
            return
        raise KeyboardInterrupt

    waiting = {"data": b"", "parts": {}, "queue": [], "unsettled": "", "until": 0}

    def take_line(line):
        request = parse(line.decode("utf-8", "replace"))
        op = request.get("op")
        if op == "part":  # of a long text
            waiting["parts"].setdefault(request["id"], []).append(request["code"])
        elif op == "cancel":
            waiting["parts"].pop(request["id"], None)
            waiting["queue"] = [r for r in waiting["queue"] if r["id"] != request["id"]]
            give('{"t":"cancelled","id":%s}\n' % quote(request["id"]))
        elif op == "over":
            if waiting["unsettled"] == request["id"]:
                waiting["unsettled"] = ""
        elif op in ("run", "once"):
            request["code"] = "".join(waiting["parts"].pop(request["id"], [])) + request["code"]
            waiting["queue"].append(request)

    def take_lines(poll, wait_ms):
        """False when nothing came in that time."""
        if not poll.poll(wait_ms):
            return False
        data = os.read(IN, 1 << 18)
        if not data:
            os._exit(0)
        *lines, waiting["data"] = (waiting["data"] + data).split(b"\n")
        for line in lines:
            take_line(line)
        return True

    def settle_ms():
        """How long an interrupt may still come that is meant for the last run."""
        return max(0, waiting["until"] - perf_counter()) * 1000 if waiting["unsettled"] else 0

    def serve_all(idle_ms):
        poll = select.poll()
        poll.register(IN, select.POLLIN)
        while True:
            # Also while some wait: one of them may not be wanted any more.
            if not waiting["queue"] and not take_lines(poll, idle_ms):
                os._exit(0)
            while waiting["queue"] and take_lines(poll, settle_ms()):
                pass
            if waiting["queue"]:
                serve(waiting["queue"].pop(0))

    def serve_apart(taken):
        """The one run of a process that was made ahead for it, with all that is loaded."""
        poll = select.poll()
        poll.register(IN, select.POLLIN)
        while not waiting["queue"]:
            take_lines(poll, None)
        request = waiting["queue"].pop(0)
        os.write(taken, request["id"].encode())
        os.close(taken)
        os.environ.clear()
        os.environ.update(request["env"])
        os.chdir(request["cwd"])
        random = sys.modules.get("numpy.random")
        if random is not None:
            random.seed()
        serve(request)

    def rehearse():
        """What a run touches first is this process's own before somebody waits for it."""
        tree = compile("str(1)\n1", "<code>", "exec", FLAGS_AST, True)
        eval(compile(_ast.Expression(tree.body.pop().value), "<code>", "eval", AWAIT, True), {})
        eval(compile(tree, "<code>", "exec", AWAIT, True), {})
        parse('{"op": "once", "id": "", "code": "", "env": {"A": "b"}, "cwd": "/"}')
        text_json("2\n")
        new_decoder().decode(b"2\n")
        dict(os.environ)
        perf_counter()
        flush()

    def serve_all_apart():
        """A process for each run, the next one as soon as the last has ended."""
        nonlocal me
        is_first = True
        while True:
            taken, theirs = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    me = os.getpid()
                    begin()
                    rehearse()
                    if is_first:
                        ready()
                    serve_apart(theirs)
                except BaseException as e:
                    say(2, "%s: %s\n" % (type(e).__name__, e))
                finally:
                    os._exit(1)
            os.close(theirs)
            state["id"] = os.read(taken, 256).decode()
            os.close(taken)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if not state["id"]:
                os._exit(0)  # nobody is there any more
            frame("exit", ',"exit":%d' % (status if status >= 0 else 128 - status))
            is_first = False

    def ready():
        version = ".".join(map(str, sys.version_info[:3]))
        frame("ready", ',"pid":%d,"version":%s,"options":%s' % (me, quote(version), quote(options)))

    def begin():
        """From here on what is printed is told."""
        open_pipes()
        sys.stdout, sys.stderr = new_stream(1, "<stdout>"), new_stream(2, "<stderr>")
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
        os.environ.setdefault("MPLBACKEND", "Agg")

    _signal.signal(_signal.SIGINT, on_interrupt)
    once, waits = sys.argv[1] in ("once", "wait"), sys.argv[1] == "wait"
    options, idle_ms = sys.argv[2], int(sys.argv[3])
    imports = sys.argv[4:]
    sys.argv = [""]
    if not waits:
        begin()
    os.environ.setdefault("MPLBACKEND", "Agg")
    sys.meta_path.insert(0, Figures)
    for name in imports:
        try:
            __import__(name)
        except BaseException as e:
            print("import %s: %s" % (name, e), file=sys.stderr)
    del space["cay_driver"]
    import builtins
    builtins.display = display
    if waits:  # what every run needs is loaded, and stays shared with its process
        import codecs, fcntl, gc, traceback
        codecs.getincrementaldecoder("utf-8")
        gc.collect()
        gc.freeze()
        serve_all_apart()
    ready()
    serve_all(idle_ms if idle_ms > 0 else None)


cay_driver()
