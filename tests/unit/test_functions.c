#include "engine/network_internal.h"
#include "engine/sandboxes.h"
#include "test_face.h"

/* Every row of the table, called by a face that knows no HTTP: its answer and its events are what
 * the row says, so are its failures, and it needs the scope that it names. */

#define NO_SANDBOX  "sbx_000000000000000000000000"
#define NO_EXEC     "bg_000000000000000000000000"
#define NO_SNAPSHOT "{\"snapshotId\": \"snap_000000000000000000000000\"}"

/* With the name of a volume that is not. */
#define NO_TERMINAL "{\"sessionId\": \"term_000000000000000000000000\"}"
#define NO_CONTEXT                                                                                 \
    .bad = "{\"contextId\": \"ctx_000000000000000000000000\"}", .bad_code = "context_not_found"
#define NO_NETWORK   .bad = "{\"networkId\": \"none\"}", .bad_code = "network_not_found"
#define NO_WEBHOOK   .bad = "{\"webhookId\": \"wh_none\"}", .bad_code = "webhook_not_found"
#define MADE_WEBHOOK "{\"url\": \"https://hooks.example.com/\", \"topics\": [\"never.*\"]}"
#define NO_VOLUME                                                                                  \
    .bad = "{\"volumeId\": \"none\", \"path\": \"/\", \"mountPath\": \"/a\", \"content\": \"\", "  \
           "\"sandboxId\": \"" NO_SANDBOX "\"}",                                                   \
    .bad_code = "volume_not_found"
#define NO_SANDBOX   "sbx_000000000000000000000000"
#define NO_EXEC      "bg_000000000000000000000000"
#define NO_JOB       .bad = "{\"jobId\": \"job_000000000000000000000000\"}", .bad_code = "job_not_found"
#define SUBMIT_FIRST .first = {{"queue::submit", "{\"command\": \"echo out\", \"delay\": 60}"}}
#define NO_PROFILE   "wp_000000000000000000000000"

#define REPOSITORY                                                                                 \
    "{\"command\": \"rm -rf .git; git init -q -b main && git -c user.name=a -c user.email=a@b "    \
    "commit -q --allow-empty -m first\"}"

#define ALERT "{\"metric\": \"pids\", \"threshold\": 100}"

static char alert_id[ID_SIZE]; /* of the last alert */

static void add_alert(json_t *in)
{
    (void)json_object_set_new(in, "alertId", json_string(alert_id));
}

static json_int_t last_pid; /* of the last background command */

static void add_pid(json_t *in)
{
    (void)json_object_set_new(in, "pid", json_integer(last_pid));
}

/* The last one that was made. */
static void add_token(json_t *in)
{
    json_t *answer = ask("token::list", "{}");
    const json_t *last = json_array_get(json_object_get(answer, "tokens"), 0);

    (void)json_object_set(in, "tokenId", json_object_get(last, "id"));
    json_decref(answer);
}

static char webhook[ID_SIZE]; /* that was made last */

static void add_webhook(json_t *in)
{
    (void)json_object_set_new(in, "webhookId", json_string(webhook));
}

static void add_sandbox(json_t *in)
{
    (void)json_object_set_new(in, "sandboxId", json_string(sandbox));
}

/* What it was refused before. */
static void add_denial(json_t *in)
{
    json_t *event = json_pack("{s:s, s:s, s:s, s:i}", "event", "denied", "id", sandbox, "address",
                              "10.0.0.1", "port", 80);

    (void)in;
    network_log_add(engine, event);
    json_decref(event);
}

static void add_expiry(json_t *in)
{
    (void)json_object_set_new(in, "expiresAt", json_integer((json_int_t)now_ms() + 600000));
}

/* How a row is called here. A new row needs one too. */
static const struct example {
    const char *id;
    const char *in;          /* with which it succeeds; NULL = {} */
    void (*add)(json_t *in); /* what is only known when it is called */
    const char *sandbox;     /* what its sandbox is made with, where that matters */
    struct {
        const char *id, *in;
    } first[2];           /* calls that come before */
    bool draining;        /* it has no end of its own */
    const char *cannot;   /* the code with which it fails in this version, whatever it is given */
    const char *bad;      /* with which it fails; NULL = with the id of a sandbox that is not */
    const char *bad_code; /* with this; NULL = sandbox_not_found */
    bool never_fails;     /* nobody can give it anything wrong */
} examples[] = {
    {"sandbox::create", "{\"image\": \"far:1\", \"env\": {\"A\": \"b\"}}",
     .bad = "{\"image\": \"gone\", \"pull\": \"never\"}", .bad_code = "image_not_found"},
    {"sandbox::list", .bad = "{\"page\": 0}", .bad_code = "invalid"},
    {"sandbox::get"},
    {"sandbox::kill"},
    {"sandbox::pause"},
    {"sandbox::resume", .first = {{"sandbox::pause", "{}"}}},
    {"sandbox::stop"},
    {"sandbox::touch"},
    {"sandbox::update", "{\"metadata\": {\"a\": \"b\"}, \"idleTimeout\": 600, \"timeout\": 900}"},
    {"sandbox::start", .first = {{"sandbox::stop", "{}"}}},
    {"sandbox::renew", .add = add_expiry},
    {"sandbox::network"},
    {"sandbox::network_set", "{\"network\": false}"},
    {"sandbox::network_explain", "{\"host\": \"pypi.org\"}"},
    {"sandbox::network_explain_post", "{\"host\": \"1.1.1.1\", \"port\": 80}"},
    {"sandbox::network_log"},
    {"sandbox::clone", "{\"name\": \"twin\"}"},
    {"sandbox::diff"},
    {"sandbox::fork", "{\"count\": 2, \"name\": \"twin\"}"},

    {"snapshot::create", "{\"name\": \"made\", \"labels\": {\"a\": \"b\"}}"},
    {"snapshot::list", .first = {{"snapshot::create", "{}"}}, .bad = "{\"labels\": 1}",
     .bad_code = "invalid"},
    {"snapshot::restore", "{\"snapshotId\": \"then\"}",
     .first = {{"snapshot::create", "{\"name\": \"then\"}"}}},
    {"snapshot::all", .first = {{"snapshot::create", "{}"}}, .bad = "{\"labels\": 1}",
     .bad_code = "invalid"},
    {"snapshot::import", "{\"path\": \"/srv/layer.tar\", \"image\": \"py:3\"}",
     .bad = "{\"path\": \"/srv/layer.tar\", \"image\": \"gone\"}", .bad_code = "image_not_found"},
    {"snapshot::export", "{\"snapshotId\": \"out\"}",
     .first = {{"snapshot::create", "{\"name\": \"out\"}"}}, .bad = NO_SNAPSHOT,
     .bad_code = "snapshot_not_found"},
    {"snapshot::get", "{\"snapshotId\": \"got\"}",
     .first = {{"snapshot::create", "{\"name\": \"got\"}"}}, .bad = NO_SNAPSHOT,
     .bad_code = "snapshot_not_found"},
    {"snapshot::label", "{\"snapshotId\": \"was\", \"name\": \"is\", \"labels\": {\"a\": \"b\"}}",
     .first = {{"snapshot::create", "{\"name\": \"was\"}"}}, .bad = NO_SNAPSHOT,
     .bad_code = "snapshot_not_found"},
    {"snapshot::clone", "{\"snapshotId\": \"cloned\"}",
     .first = {{"snapshot::create", "{\"name\": \"cloned\"}"}}, .bad = NO_SNAPSHOT,
     .bad_code = "snapshot_not_found"},
    {"snapshot::delete", "{\"snapshotId\": \"old\"}",
     .first = {{"snapshot::create", "{\"name\": \"old\"}"}}, .bad = NO_SNAPSHOT,
     .bad_code = "snapshot_not_found"},

    {"audit::list", .bad = "{\"since\": \"x\"}", .bad_code = "invalid"},
    {"audit::verify", .bad = "{\"head\": \"x\"}", .bad_code = "invalid"},
    {"token::create", "{\"scopes\": [\"read\"], \"label\": {\"a\": \"b\"}, \"expiresIn\": 60}",
     .bad = "{\"scopes\": [\"everything\"]}", .bad_code = "invalid"},
    {"token::list", .first = {{"token::create", "{\"scopes\": [\"admin\"]}"}}, .never_fails = true},
    {"token::revoke", .first = {{"token::create", "{\"scopes\": [\"read\"]}"}}, .add = add_token,
     .bad = "{\"tokenId\": \"tok_000000000000000000000000\"}", .bad_code = "token_not_found"},

    {"cmd::run", "{\"command\": \"echo out; printf '\\\\377' >&2\"}"},
    {"cmd::run_stream", "{\"command\": \"echo out; echo err >&2; exit 3\"}"},
    {"cmd::attach", "{\"command\": [\"echo\", \"out\"]}"},
    {"cmd::background", "{\"command\": \"true\"}"},
    {"cmd::background_status", .first = {{"cmd::background", "{\"command\": \"true\"}"}},
     .bad = "{\"execId\": \"" NO_EXEC "\"}", .bad_code = "exec_not_found"},
    {"cmd::background_logs", .first = {{"cmd::background", "{\"command\": \"true\"}"}},
     .bad = "{\"execId\": \"" NO_EXEC "\"}", .bad_code = "exec_not_found"},
    {"cmd::list", .first = {{"cmd::background", "{\"command\": \"true\"}"}}},
    {"cmd::get", .first = {{"cmd::background", "{\"command\": \"true\"}"}},
     .bad = "{\"execId\": \"" NO_EXEC "\"}", .bad_code = "exec_not_found"},
    {"cmd::get_stream", .first = {{"cmd::background", "{\"command\": \"echo out\"}"}},
     .bad = "{\"execId\": \"" NO_EXEC "\"}", .bad_code = "exec_not_found"},
    {"cmd::get_attach", .first = {{"cmd::background", "{\"command\": \"echo out\"}"}},
     .bad = "{\"execId\": \"" NO_EXEC "\"}", .bad_code = "exec_not_found"},
    {"cmd::kill", .first = {{"cmd::background", "{\"command\": \"sleep 1000\"}"}},
     .bad = "{\"execId\": \"" NO_EXEC "\"}", .bad_code = "exec_not_found"},
    {"cmd::interrupt", .first = {{"cmd::background", "{\"command\": \"sleep 1000\"}"}}},

    {"fs::read", "{\"path\": \"read\"}",
     .first = {{"fs::write", "{\"path\": \"read\", \"content\": \"text\"}"}}},
    {"fs::write", "{\"path\": \"new/file\", \"content\": \"text\"}"},
    {"fs::delete", "{\"path\": \"deleted\"}",
     .first = {{"fs::write", "{\"path\": \"deleted\", \"content\": \"\"}"}}},
    {"fs::list", .first = {{"fs::write", "{\"path\": \"listed\", \"content\": \"\"}"}}},
    {"fs::search", "{\"pattern\": \"fou*\"}",
     .first = {{"fs::write", "{\"path\": \"found\", \"content\": \"\"}"}}},
    {"fs::upload", "{\"path\": \"up\", \"content\": \"aGVsbG8K\", \"mode\": \"0600\"}"},
    {"fs::download", "{\"path\": \"down\"}",
     .first = {{"fs::upload", "{\"path\": \"down\", \"content\": \"AP8=\"}"}}},
    {"fs::info", "{\"paths\": [\".\", \"known\"]}",
     .first = {{"fs::write", "{\"path\": \"known\", \"content\": \"\"}"}}},
    {"fs::move", "{\"moves\": [{\"from\": \"here\", \"to\": \"there\"}]}",
     .first = {{"fs::write", "{\"path\": \"here\", \"content\": \"\"}"}}},
    {"fs::copy", "{\"from\": \"one\", \"to\": \"new/two\", \"replace\": true}",
     .first = {{"fs::write", "{\"path\": \"one\", \"content\": \"\"}"}}},
    {"fs::symlink", "{\"path\": \"link\", \"target\": \"nothing\", \"replace\": true}"},
    {"fs::mkdir", "{\"paths\": [\"a/b\", \"c\"]}"},
    {"fs::rmdir", "{\"path\": \"dir\"}", .first = {{"fs::mkdir", "{\"path\": \"dir/below\"}"}}},
    {"fs::chmod", "{\"path\": \"run\", \"mode\": \"u+x\"}",
     .first = {{"fs::write", "{\"path\": \"run\", \"content\": \"\"}"}}},

    {"env::get", "{\"key\": \"PATH\"}"},
    {"fs::watch", "{\"recursive\": true}", .draining = true, .bad = "{\"path\": \"../x\"}",
     .bad_code = "path_traversal"},
    {"fs::watch_socket", "{\"recursive\": true}", .draining = true, .bad = "{\"path\": \"../x\"}",
     .bad_code = "path_traversal"},

    {"env::set", "{\"vars\": {\"A\": \"b\"}}"},
    {"env::list"},
    {"env::delete", "{\"key\": \"A\"}", .first = {{"env::set", "{\"vars\": {\"A\": \"b\"}}"}}},

    {"worker::heartbeat", .never_fails = true},
    {"worker::list", .never_fails = true},
    {"worker::select", .never_fails = true},
    {"worker::reap", .never_fails = true},
    {"worker::migrate", .never_fails = true},
    {"worker::heartbeat_too", .never_fails = true},
    {"worker::list_too", .never_fails = true},
    {"worker::select_too", .never_fails = true},
    {"worker::select_get", .never_fails = true},
    {"worker::reap_too", .never_fails = true},
    {"worker::migrate_too", .never_fails = true},

    {"monitor::set_alert", "{\"metric\": \"memory\", \"threshold\": 90}"},
    {"monitor::list_alerts", .first = {{"monitor::set_alert", ALERT}}},
    {"monitor::delete_alert", .add = add_alert, .first = {{"monitor::set_alert", ALERT}},
     .bad = "{\"alertId\": \"alrt_0\"}", .bad_code = "alert_not_found"},
    {"monitor::alert_history", .first = {{"monitor::set_alert", ALERT}}},

    {"git::clone", "{\"url\": \"file:///nowhere\"}"},
    {"git::status", .first = {{"cmd::run", REPOSITORY}}},
    {"git::commit", "{\"message\": \"second\", \"all\": true}",
     .first = {{"cmd::run", REPOSITORY}}},
    {"git::diff", .first = {{"cmd::run", REPOSITORY}}},
    {"git::log", .first = {{"cmd::run", REPOSITORY}}},
    {"git::branch", "{\"name\": \"new\"}", .first = {{"cmd::run", REPOSITORY}}},
    {"git::checkout", "{\"ref\": \"main\"}", .first = {{"cmd::run", REPOSITORY}}},
    {"git::push", .first = {{"cmd::run", REPOSITORY}}},
    {"git::pull", .first = {{"cmd::run", REPOSITORY}}},

    {"proc::list"},
    {"proc::kill", "{\"signal\": \"KILL\"}", .add = add_pid,
     .first = {{"cmd::background", "{\"command\": \"exec sleep 1000\"}"}}},
    {"proc::top"},

    {"metrics::sandbox"},
    {"metrics::global", .never_fails = true},
    {"metrics::health", .never_fails = true},
    {"metrics::history"},
    {"metrics::prometheus", .never_fails = true},

    {"observability::traces", "{\"limit\": 5}", .add = add_sandbox, .bad = "{\"traceId\": \"x\"}",
     .bad_code = "invalid"},
    {"observability::metrics", .never_fails = true},
    {"observability::clear", .bad = "{\"before\": -1}", .bad_code = "invalid"},

    {"stream::logs", "{\"follow\": true}",
     .sandbox = "{\"image\": \"host\", \"entrypoint\": [\"echo\", \"said\"]}"},
    {"stream::metrics", .draining = true},
    {"stream::events", "{\"since\": 1}", .add = add_sandbox, .draining = true,
     .bad = "{\"lastEventId\": \"evt_1\"}", .bad_code = "bad_event_id"},
    {"event::history", "{\"limit\": 1}", .add = add_sandbox, .bad = "{\"topic\": \"a b\"}",
     .bad_code = "bad_topic"},
    {"event::publish", "{\"topic\": \"mine\"}", .add = add_sandbox,
     .bad = "{\"topic\": \"a*\", \"sandboxId\": \"any\"}", .bad_code = "bad_topic"},
    {"stream::network", .add = add_denial, .draining = true},

    {"image::list", .never_fails = true},
    {"image::catalog", .never_fails = true},
    {"image::pull", "{\"reference\": \"far:2\"}", .bad = "{\"reference\": \"host\"}",
     .bad_code = "bad_image_name"},
    {"image::import", "{\"path\": \"/srv/rootfs.tar\", \"name\": \"mine:1\"}",
     .bad = "{\"path\": \"rootfs.tar\"}", .bad_code = "invalid"},
    {"image::prune", "{\"dryRun\": true}", .bad = "{\"keepMb\": -1}", .bad_code = "invalid"},
    {"image::get", "{\"name\": \"py:3\"}", .bad = "{\"name\": \"gone\"}",
     .bad_code = "image_not_found"},
    {"image::remove", "{\"name\": \"far:3\"}",
     .first = {{"image::pull", "{\"reference\": \"far:3\"}"}}, .bad = "{\"name\": \"py\"}",
     .bad_code = "image_in_use"},
    {"image::tag", "{\"image\": \"py:3\", \"name\": \"mine:2\"}",
     .bad = "{\"image\": \"py:3\", \"name\": \"host\"}", .bad_code = "image_reserved"},
    {"image::export", "{\"name\": \"py:3\"}", .bad = "{\"name\": \"host\"}",
     .bad_code = "unsupported"},
    {"image::commit", "{\"name\": \"mine:3\", \"env\": {\"A\": \"b\"}}"},

    {"webhook::create", MADE_WEBHOOK, .bad = "{\"url\": \"http://10.0.0.1/\"}",
     .bad_code = "webhook_target_refused"},
    {"webhook::list", .first = {{"webhook::create", MADE_WEBHOOK}}, .never_fails = true},
    {"webhook::get", .first = {{"webhook::create", MADE_WEBHOOK}}, .add = add_webhook, NO_WEBHOOK},
    {"webhook::update", "{\"active\": false}", .first = {{"webhook::create", MADE_WEBHOOK}},
     .add = add_webhook, .bad = "{\"webhookId\": \"wh_none\", \"active\": true}",
     .bad_code = "webhook_not_found"},
    {"webhook::delete", .first = {{"webhook::create", MADE_WEBHOOK}}, .add = add_webhook,
     NO_WEBHOOK},
    /* These tests have no courier. */
    {"webhook::test", .first = {{"webhook::create", MADE_WEBHOOK}}, .add = add_webhook,
     .cannot = "unsupported", NO_WEBHOOK},
    {"webhook::deliveries", .first = {{"webhook::create", MADE_WEBHOOK}}, .add = add_webhook,
     NO_WEBHOOK},

    {"network::create", "{\"name\": \"made\"}", .bad = "{\"name\": \"net_mine\"}",
     .bad_code = "invalid"},
    {"network::list", .never_fails = true},
    {"network::get", "{\"networkId\": \"shown\"}", NO_NETWORK,
     .first = {{"network::create", "{\"name\": \"shown\"}"}}},
    {"network::delete", "{\"networkId\": \"gone\"}", NO_NETWORK,
     .first = {{"network::create", "{\"name\": \"gone\"}"}}},
    /* One that is stopped needs no gateway, which these tests do not have. */
    {"network::connect", "{\"networkId\": \"joined\"}", .add = add_sandbox,
     .bad = "{\"networkId\": \"none\", \"sandboxId\": \"none\"}",
     .first = {{"network::create", "{\"name\": \"joined\"}"}, {"sandbox::stop", "{}"}}},
    {"network::disconnect", "{\"networkId\": \"left\"}", .add = add_sandbox,
     .cannot = "network_not_connected", .bad = "{\"networkId\": \"none\", \"sandboxId\": \"none\"}",
     .first = {{"network::create", "{\"name\": \"left\"}"}}},

    {"volume::create", "{\"name\": \"made\", \"sizeMb\": 32}", .bad = "{\"name\": \"vol_mine\"}",
     .bad_code = "invalid"},
    {"volume::list", .never_fails = true},
    {"volume::get", "{\"volumeId\": \"shown\"}", NO_VOLUME,
     .first = {{"volume::create", "{\"name\": \"shown\"}"}}},
    {"volume::delete", "{\"volumeId\": \"gone\"}", NO_VOLUME,
     .first = {{"volume::create", "{\"name\": \"gone\"}"}}},
    {"volume::attach", "{\"volumeId\": \"attached\", \"mountPath\": \"/data\"}", NO_VOLUME,
     .add = add_sandbox, .first = {{"volume::create", "{\"name\": \"attached\"}"}}},
    {"volume::detach", "{\"volumeId\": \"freed\"}", NO_VOLUME, .add = add_sandbox,
     .sandbox = "{\"image\": \"host\", \"volumes\": [{\"name\": \"freed\", \"create\": true, "
                "\"mountPath\": \"/data\"}]}"},
    {"port::expose", "{\"containerPort\": 8000, \"hostPort\": 0}", .add = add_sandbox,
     .bad = "{\"containerPort\": 8000, \"hostAddress\": \"192.0.2.1\"}",
     .bad_code = "address_not_allowed"},
    {"port::dial", "{\"port\": \"8000\"}", .add = add_sandbox, .bad = "{\"port\": \"0\"}",
     .bad_code = "invalid"},
    {"port::list", .add = add_sandbox},
    {"port::unexpose", "{\"containerPort\": 8000}", .add = add_sandbox,
     .bad = "{\"containerPort\": 8001}", .bad_code = "port_not_found",
     .sandbox = "{\"image\": \"host\", \"ports\": [{\"containerPort\": 8000, \"hostPort\": 0}]}"},
    {"volume::files", "{\"volumeId\": \"f1\"}", NO_VOLUME,
     .first = {{"volume::create", "{\"name\": \"f1\"}"},
               {"volume::mkdir", "{\"volumeId\": \"f1\", \"path\": \"/a\"}"}}},
    {"volume::file_info", "{\"volumeId\": \"f2\", \"path\": \"/\"}", NO_VOLUME,
     .first = {{"volume::create", "{\"name\": \"f2\"}"}}},
    {"volume::read", "{\"volumeId\": \"f3\", \"path\": \"/a\"}", NO_VOLUME,
     .first = {{"volume::create", "{\"name\": \"f3\"}"},
               {"volume::write",
                "{\"volumeId\": \"f3\", \"path\": \"/a\", \"content\": \"text\"}"}}},
    {"volume::download", "{\"volumeId\": \"f4\", \"path\": \"/a\"}", NO_VOLUME,
     .first = {{"volume::create", "{\"name\": \"f4\"}"},
               {"volume::upload",
                "{\"volumeId\": \"f4\", \"path\": \"/a\", \"content\": \"AP8=\"}"}}},
    {"volume::write", "{\"volumeId\": \"f5\", \"path\": \"/a\", \"content\": \"text\"}", NO_VOLUME,
     .first = {{"volume::create", "{\"name\": \"f5\"}"}}},
    {"volume::upload",
     "{\"volumeId\": \"f6\", \"path\": \"/a\", \"content\": \"AP8=\", \"mode\": \"0600\"}",
     NO_VOLUME, .first = {{"volume::create", "{\"name\": \"f6\"}"}}},
    {"volume::mkdir", "{\"volumeId\": \"f7\", \"path\": \"/a/b\"}", NO_VOLUME,
     .first = {{"volume::create", "{\"name\": \"f7\"}"}}},
    {"volume::remove_file", "{\"volumeId\": \"f8\", \"path\": \"/a\", \"recursive\": true}",
     NO_VOLUME,
     .first = {{"volume::create", "{\"name\": \"f8\"}"},
               {"volume::mkdir", "{\"volumeId\": \"f8\", \"path\": \"/a/b\"}"}}},
    {"template::create",
     "{\"name\": \"t1\", \"config\": {\"image\": \"py\", \"files\": [{\"path\": \"/a\", "
     "\"content\": \"b\"}]}, \"build\": false}",
     .bad = "{\"name\": \"go-api\", \"config\": {\"image\": \"py\"}}",
     .bad_code = "template_exists"},
    {"template::build_directory", "{\"name\": \"built\", \"dockerfile\": \"FROM py\\nENV A=1\\n\"}",
     .bad = "{\"name\": \"built\", \"dockerfile\": \"FROM py\\nFETCH x\\n\"}",
     .bad_code = "bad_dockerfile"},
    {"template::list", .never_fails = true},
    {"template::get", "{\"templateId\": \"node-web\"}", .bad = "{\"templateId\": \"nobody\"}",
     .bad_code = "template_not_found"},
    {"template::delete", "{\"templateId\": \"t2\"}",
     .first = {{"template::create", "{\"name\": \"t2\", \"config\": {\"image\": \"py\"}}"}},
     .bad = "{\"templateId\": \"tpl_go-api\"}", .bad_code = "template_builtin"},
    {"template::build", "{\"templateId\": \"t3\", \"pull\": true}",
     .first = {{"template::create", "{\"name\": \"t3\", \"config\": {\"image\": \"far:4\"}}"}},
     .bad = "{\"templateId\": \"nobody\"}", .bad_code = "template_not_found"},
    {"proxy::request", "{\"port\": \"8080\"}", .cannot = "port_not_exposed",
     .bad = "{\"sandboxId\": \"" NO_SANDBOX "\", \"port\": \"8080\"}"},
    {"proxy::config", "{\"cors\": \"https://app.example\", \"requireAuth\": true}"},
    {"proxy::sign", "{\"port\": 8080}",
     .bad = "{\"sandboxId\": \"" NO_SANDBOX "\", \"port\": 8080}"},

    {"pool::status", .never_fails = true},
    {"pool::profiles", .never_fails = true},
    {"pool::add", "{\"image\": \"host\", \"size\": 1}", .bad = "{\"image\": \"a$b\"}",
     .bad_code = "bad_image"},
    {"pool::remove", "{\"profileId\": \"" NO_PROFILE "\"}", .cannot = "pool_profile_not_found",
     .bad = "{\"profileId\": \"" NO_PROFILE "\"}", .bad_code = "pool_profile_not_found"},

    {"queue::submit", "{\"command\": \"echo out\"}"},
    {"queue::list", "{\"status\": \"pending\"}", .add = add_sandbox, .bad = "{\"status\": \"x\"}",
     .bad_code = "invalid"},
    {"queue::status", SUBMIT_FIRST, NO_JOB},
    {"queue::logs", SUBMIT_FIRST, NO_JOB},
    {"queue::cancel", .first = {{"queue::submit", "{\"command\": \"x\", \"delay\": 60}"}}, NO_JOB},
    {"queue::dlq", .add = add_sandbox, .bad = "{\"limit\": \"x\"}", .bad_code = "invalid"},
    {"queue::requeue", SUBMIT_FIRST, NO_JOB, .cannot = "job_not_failed"},
    {"queue::purge", .add = add_sandbox, .bad = "{\"sandboxId\": 7}", .bad_code = "invalid"},
    {"queue::forget", SUBMIT_FIRST, NO_JOB, .cannot = "job_not_failed"},

    {"interp::execute", "{\"code\": \"echo out; echo err >&2\", \"language\": \"bash\"}"},
    {"interp::install", "{\"packages\": [\"/nonexistent/no.whl\"]}", .cannot = "install_failed"},
    {"interp::kernels"},
    {"interp::context_create", "{}", .bad = "{\"language\": \"go\"}", .bad_code = "invalid"},
    {"interp::context_list", .first = {{"interp::context_create", "{}"}}},
    {"interp::context_get", .first = {{"interp::context_create", "{}"}}, NO_CONTEXT},
    {"interp::context_delete", .first = {{"interp::context_create", "{}"}}, NO_CONTEXT},
    {"interp::context_restart", .first = {{"interp::context_create", "{}"}}, NO_CONTEXT},
    {"interp::context_interrupt", .first = {{"interp::context_create", "{}"}}, NO_CONTEXT},

    {"terminal::create", "{\"cols\": 100}", .bad = "{\"shell\": \"/bin/cat\"}",
     .bad_code = "shell_not_allowed"},
    {"terminal::list", .first = {{"terminal::create", "{}"}}},
    {"terminal::get", .first = {{"terminal::create", "{}"}}, .bad = NO_TERMINAL,
     .bad_code = "terminal_not_found"},
    {"terminal::resize", "{\"cols\": 120, \"rows\": 40}", .first = {{"terminal::create", "{}"}},
     .bad = "{\"sessionId\": \"term_0\", \"cols\": 1, \"rows\": 1}",
     .bad_code = "terminal_not_found"},
    {"terminal::close", .first = {{"terminal::create", "{}"}}, .bad = NO_TERMINAL,
     .bad_code = "terminal_not_found"},
    {"terminal::attach", .first = {{"terminal::create", "{}"}, {"terminal::close", "{}"}},
     .bad = NO_TERMINAL, .bad_code = "terminal_not_found"},
    {"terminal::recording", .first = {{"terminal::create", "{\"record\": true}"}},
     .bad = NO_TERMINAL, .bad_code = "terminal_not_found"},
    {"terminal::channel", "{\"key\": \"none\", \"dir\": \"read\"}", .cannot = "channel_not_found",
     .bad_code = "channel_not_found"},

    {"lifecycle::sweep", .never_fails = true},
    {"system::strays", .never_fails = true},
    {"system::stray_adopt", .cannot = "stray_not_found", .bad_code = "stray_not_found"},
    {"system::stray_remove", .cannot = "stray_not_found", .bad_code = "stray_not_found"},
    {"system::info", .never_fails = true},
    {"system::openapi", .never_fails = true},
};

static const struct example *example_of(const struct function *row)
{
    for (size_t i = 0; i < ARRAY_LEN(examples); i++)
        if (strcmp(examples[i].id, row->id) == 0)
            return &examples[i];
    TAP_FAIL("%s has no example in the table of this test", row->id);
}

static json_t *input_of(const struct example *x)
{
    json_t *in = json_loads(x->in ? x->in : "{}", 0, NULL);

    CHECK(in);
    if (x->add)
        x->add(in);
    return in;
}

/* ---- success ---- */

static void call_first(const struct example *x)
{
    for (size_t i = 0; i < ARRAY_LEN(x->first) && x->first[i].id; i++) {
        json_t *out = ask(x->first[i].id, x->first[i].in);

        if (strcmp(x->first[i].id, "cmd::background") == 0) {
            (void)snprintf(exec_id, sizeof(exec_id), "%s", str(out, "id"));
            last_pid = num(out, "pid");
        }
        if (strcmp(x->first[i].id, "queue::submit") == 0)
            (void)snprintf(job_id, sizeof(job_id), "%s", str(out, "id"));
        if (strcmp(x->first[i].id, "monitor::set_alert") == 0)
            (void)snprintf(alert_id, sizeof(alert_id), "%s", str(out, "id"));
        if (strcmp(x->first[i].id, "terminal::create") == 0)
            (void)snprintf(session_id, sizeof(session_id), "%s", str(out, "sessionId"));
        if (strcmp(x->first[i].id, "interp::context_create") == 0)
            (void)snprintf(context_id, sizeof(context_id), "%s", str(out, "id"));
        if (strcmp(x->first[i].id, "webhook::create") == 0)
            (void)snprintf(webhook, sizeof(webhook), "%s", str(out, "id"));
        json_decref(out);
    }
}

/* A row may make sandboxes: they are not left for the next one. */
static void remove_made(json_t *out)
{
    json_t *many = json_object_get(out, "sandboxes"), *one;
    const char *id = json_string_value(json_object_get(out, "id"));
    size_t i;

    json_array_foreach(many, i, one)
    {
        remove_made(one);
    }
    if (id && str_starts(id, "sbx_") && engine_has(engine, id)) {
        (void)snprintf(sandbox, sizeof(sandbox), "%s", id);
        do_call("sandbox::kill", "{}");
    }
}

/* Each has a sandbox of its own; with the one scope that it names it must do. */
static int call_row(const struct function *row, void *count)
{
    const struct example *x = example_of(row);
    struct caller caller = full_caller;
    struct face f;

    sandbox_new(x->sandbox ? x->sandbox : "{\"image\": \"host\"}");
    call_first(x);
    caller.scopes = 1u << row->scope;
    face_init(&f, row->id, input_of(x));
    f.call.caller = &caller;
    f.call.draining = x->draining;
    if (x->cannot) {
        face_fails(&f, x->cannot);
    } else {
        face_succeeds(&f);
        face_check(&f);
    }
    if (strcmp(row->id, "sandbox::kill") != 0)
        do_call("sandbox::kill", "{}");
    remove_made(f.call.out);
    face_done(&f);
    fake_images_reset();
    ++*(unsigned *)count;
    return 0;
}

TEST(every_row_gives_what_it_says)
{
    unsigned count = 0;

    up("{\"image\": \"host\"}");
    CHECK_INT(functions_each(call_row, &count), 0);
    CHECK_INT(count, ARRAY_LEN(examples)); /* none is left of a row that is gone */
    down();
}

/* ---- failures ---- */

static bool has_word(const char *words, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = words; p && (p = strstr(p, word)); p += len)
        if ((p == words || p[-1] == ' ') && strchr(" ", p[len]))
            return true;
    return false;
}

static bool may_fail_with(const struct function *row, const char *code)
{
    const struct error_code *known = error_code_find(code, strlen(code));

    return known && (known->general || has_word(row->errors, code));
}

static void check_named(const struct face *f)
{
    if (!may_fail_with(f->function, code_of(f)))
        TAP_FAIL("%s fails with %s (%s), which is not in its row", f->function->id, code_of(f),
                 f->err.text);
}

static bool takes_nothing(const struct function *row)
{
    return !strchr(row->route, ':') && !row->fields;
}

static json_t *bad_input_of(const struct example *x)
{
    json_t *in = x->bad ? json_loads(x->bad, 0, NULL) : input_of(x);

    CHECK(in);
    if (!x->bad)
        (void)json_object_set_new(in, "sandboxId", json_string(NO_SANDBOX));
    return in;
}

static int fail_row(const struct function *row, void *arg)
{
    const struct example *x = example_of(row);
    struct face f;

    (void)arg;
    if (x->never_fails) {
        CHECK(takes_nothing(row));
        return 0;
    }
    last_pid = 1;
    face_init(&f, row->id, bad_input_of(x));
    face_fails(&f, x->bad_code ? x->bad_code : "sandbox_not_found");
    check_named(&f);
    CHECK(f.err.text[0]);
    CHECK(!f.call.out);
    face_done(&f);
    return 0;
}

TEST(every_row_fails_with_a_code_that_it_names)
{
    up("{\"image\": \"py\"}");
    CHECK_INT(functions_each(fail_row, NULL), 0);
    down();
}

/* What else can be wrong, where the sandbox is there. */
static const struct {
    const char *id, *in, *code;
} mistakes[] = {
    {"sandbox::create", "{\"image\": \"py\", \"workdir\": \"a/../..\"}", "path_traversal"},
    {"sandbox::create", "{\"image\": \"py\", \"network\": true}", "network_unsupported"},
    {"sandbox::create", "{\"image\": \"py\", \"runEntrypoint\": true}", "no_default_command"},
    {"sandbox::create", "{\"image\": \"py\", \"template\": \"x\"}", "template_not_found"},
    {"template::create", "{\"name\": \"x\", \"config\": {\"image\": \"py\", \"network\": true}}",
     "network_unsupported"},
    {"template::create", "{\"name\": \"x\", \"config\": {}}", "invalid"},
    {"template::create", "{\"name\": \"x\", \"config\": {\"image\": \"py\", \"setup\": [7]}}",
     "invalid"},
    {"template::build", "{\"templateId\": \"rust-cli\"}", "template_builtin"},
    {"sandbox::create", "{\"image\": \"py\", \"entrypoint\": [\"/no/program\"]}",
     "command_not_found"},
    {"sandbox::resume", "{}", "sandbox_not_paused"},
    {"cmd::run", "{\"command\": [\"/no/program\"]}", "command_not_found"},
    {"cmd::run", "{\"command\": \"x\", \"cwd\": \"/no/where\"}", "bad_cwd"},
    {"cmd::run", "{\"command\": \"x\", \"user\": \"nobody-at-all\"}", "bad_user"},
    {"cmd::run", "{\"command\": \"sleep 1000\", \"timeout\": 0.01}", "command_timeout"},
    {"cmd::run", "{\"command\": \"x\", \"stdin\": \"?\", \"stdinEncoding\": \"base64\"}",
     "bad_base64"},
    {"cmd::run_stream", "{\"command\": [\"/etc/passwd\"]}", "not_executable"},
    {"cmd::attach", "{\"command\": [\"/no/program\"]}", "command_not_found"},
    {"cmd::background", "{\"command\": [\"/no/program\"]}", "command_not_found"},
    {"fs::read", "{\"path\": \"nothing\"}", "file_not_found"},
    {"fs::read", "{\"path\": \".\"}", "is_a_directory"},
    {"fs::download", "{\"path\": \"/dev/null\", \"anywhere\": true}", "not_a_file"},
    {"fs::write", "{\"path\": \"../x\", \"content\": \"\"}", "path_traversal"},
    {"fs::write", "{\"path\": \"file/below\", \"content\": \"\"}", "not_a_directory"},
    {"fs::upload", "{\"path\": \"a\", \"content\": \"=\"}", "bad_base64"},
    {"fs::upload", "{\"path\": \"a\"}", "invalid"},
    {"fs::upload", "{\"path\": \"a\", \"content\": \"\", \"mode\": \"9\"}", "invalid"},
    {"fs::delete", "{\"path\": \".\"}", "is_a_directory"},
    {"fs::list", "{\"path\": \"file\"}", "not_a_directory"},
    {"fs::search", "{\"pattern\": \"$x\"}", "invalid"},
    {"fs::info", "{\"path\": \"nothing\"}", "file_not_found"},
    {"fs::info", "{}", "invalid"},
    {"fs::move", "{\"moves\": [{\"from\": \"nothing\", \"to\": \"x\"}]}", "file_not_found"},
    {"fs::copy", "{\"from\": \"nothing\", \"to\": \"x\"}", "file_not_found"},
    {"fs::copy", "{\"from\": \"file\", \"to\": \"../x\"}", "path_traversal"},
    {"fs::symlink", "{\"path\": \"file\", \"target\": \"x\"}", "conflict"},
    {"fs::mkdir", "{\"path\": \"file\"}", "not_a_directory"},
    {"fs::chmod", "{\"path\": \"nothing\", \"mode\": \"644\"}", "file_not_found"},
    {"fs::chmod", "{\"path\": \"file\", \"mode\": \"x\"}", "invalid"},
    {"sandbox::network_set", "{\"network\": \"nonsense\"}", "bad_policy"},
    {"sandbox::network_set", "{\"network\": {\"rules\": 1}}", "bad_policy"},
    {"sandbox::network_set", "{\"network\": true}", "network_unsupported"},
    {"sandbox::network_explain", "{\"host\": \"a\", \"port\": 0}", "invalid"},
    {"env::get", "{\"key\": \"1\"}", "invalid"},
    {"env::delete", "{\"key\": \"PATH\"}", "invalid"},
    {"proc::kill", "{\"pid\": 4194304, \"signal\": \"NONE\"}", "invalid"},
    {"image::pull", "{\"reference\": \"A b\"}", "bad_image_name"},
    {"image::import", "{\"path\": \"/a\", \"name\": \"host\"}", "image_reserved"},
    {"image::commit", "{\"name\": \"host\"}", "image_reserved"},
    {"image::commit", "{\"name\": \"mine\", \"workdir\": \"a\"}", "invalid"},
};

TEST(mistakes_are_told_with_codes_of_the_row)
{
    up("{\"image\": \"py\"}");
    do_call("fs::write", "{\"path\": \"file\", \"content\": \"\"}");
    for (size_t i = 0; i < ARRAY_LEN(mistakes); i++) {
        struct face f;

        face_text(&f, mistakes[i].id, mistakes[i].in);
        face_fails(&f, mistakes[i].code);
        check_named(&f);
        face_done(&f);
    }
    down();
}

/* ---- sandboxes that do not do what they are told ---- */

struct trouble {
    const char *code; /* what most rows fail with now */
    unsigned times;   /* how many did */
    bool stopped, draining;
};

#define DRAIN "{\"drain\": true}"

/* What pause, resume and start have changed is changed back. */
static void undo(const struct function *row, const struct trouble *trouble)
{
    if (strcmp(row->id, "sandbox::pause") == 0)
        do_call("sandbox::resume", "{}");
    else if (strcmp(row->id, "sandbox::resume") == 0)
        do_call("sandbox::pause", "{}");
    else if (strcmp(row->id, "sandbox::start") == 0 && (trouble->stopped || trouble->draining))
        do_call("sandbox::stop", trouble->stopped ? "{}" : DRAIN);
}

/* Whatever it does now, it keeps to its row. */
static int try_row(const struct function *row, void *arg)
{
    struct trouble *trouble = arg;
    struct face f;

    if (!has_param(row, "sandboxId") || strcmp(row->id, "sandbox::kill") == 0 ||
        strcmp(row->id, "sandbox::stop") == 0 ||
        (trouble->draining && strcmp(row->id, "proc::kill") == 0)) /* which it is still good for */
        return 0;
    last_pid = getpid(); /* a signal that is sent all the same ends the test */
    face_init(&f, row->id, input_of(example_of(row)));
    f.call.draining = true;
    if (face_run(&f) == 0) {
        face_check(&f);
        undo(row, trouble);
    } else {
        check_named(&f);
        trouble->times += strcmp(code_of(&f), trouble->code) == 0;
    }
    face_done(&f);
    return 0;
}

TEST(every_row_keeps_to_its_codes_while_the_sandbox_is_paused)
{
    struct trouble trouble = {"sandbox_not_running"};

    up("{\"image\": \"host\"}");
    do_call("sandbox::pause", "{}");
    CHECK_INT(functions_each(try_row, &trouble), 0);
    CHECK(trouble.times > 20);
    down();
}

TEST(every_row_keeps_to_its_codes_while_the_sandbox_is_stopped)
{
    struct trouble trouble = {"sandbox_not_running", .stopped = true};

    up("{\"image\": \"host\"}");
    do_call("sandbox::stop", "{}");
    CHECK_INT(functions_each(try_row, &trouble), 0);
    CHECK(trouble.times > 10);
    down();
}

TEST(every_row_keeps_to_its_codes_while_the_sandbox_drains)
{
    struct trouble trouble = {"sandbox_draining", .draining = true};

    up("{\"image\": \"host\"}");
    do_call("cmd::background", "{\"command\": \"exec sleep 1000\"}");
    do_call("sandbox::stop", DRAIN);
    CHECK_INT(functions_each(try_row, &trouble), 0);
    CHECK(trouble.times > 10);
    down();
}

TEST(every_row_keeps_to_its_codes_when_the_agent_hangs_up)
{
    struct trouble trouble = {"agent_lost"};

    up("{\"image\": \"host\"}");
    rig_lost = true;
    CHECK_INT(functions_each(try_row, &trouble), 0);
    CHECK(trouble.times > 20);
    down();
}

/* ---- who may ---- */

/* All that a call could change. */
static json_t *state_of_all(void)
{
    json_t *global = ask("metrics::global", "{}"), *state;

    (void)json_object_del(global, "uptimeSeconds");
    state = json_pack("{s:o, s:o, s:o, s:o, s:o, s:i, s:i, s:b}", "global", global, "sandboxes",
                      ask("sandbox::list", "{}"), "files", ask("fs::search", "{\"pattern\":\"*\"}"),
                      "env", ask("env::list", "{}"), "images", ask("image::list", "{}"), "pulls",
                      (int)fake_images_count(&fake_images.pulls), "collected",
                      (int)fake_images_collected(), "committed", fake_images.committed != NULL);
    CHECK(state);
    return state;
}

static void check_refused(struct face *f, const char *code)
{
    face_fails(f, code);
    CHECK_INT(f->err.kind, ERR_FORBIDDEN);
    CHECK(!f->call.out && !f->call.task);
    CHECK_INT(json_array_size(f->events) + json_array_size(f->items), 0);
}

static int refuse_row(const struct function *row, void *arg)
{
    struct caller caller = full_caller;
    struct face f;

    (void)arg;
    last_pid = getpid(); /* a signal that is sent all the same ends the test */
    face_init(&f, row->id, input_of(example_of(row)));
    f.call.caller = &caller;
    if (row->scope == SCOPE_NONE) {
        caller.scopes = 0;
        if (example_of(row)->cannot)
            face_fails(&f, example_of(row)->cannot);
        else
            face_succeeds(&f);
    } else {
        caller.scopes &= ~(1u << row->scope);
        check_refused(&f, "scope_missing");
    }
    face_done(&f);
    return 0;
}

TEST(without_its_scope_no_row_does_anything)
{
    json_t *before, *after;

    up("{\"image\": \"py\"}");
    do_call("fs::write", "{\"path\": \"deleted\", \"content\": \"\"}");
    before = state_of_all();
    CHECK_INT(functions_each(refuse_row, NULL), 0);
    after = state_of_all();
    CHECK(json_equal(before, after));
    json_decref(before);
    json_decref(after);
    down();
}

/* ---- tokens for some sandboxes only ---- */

static bool takes(const struct function *row, const char *name)
{
    bool found = has_param(row, name);

    for (const struct field *f = row->fields; f && f->name && !found; f++)
        found = strcmp(f->name, name) == 0;
    return found;
}

/* A row whose input names a sandbox, or what belongs to one, is never open to all. */
static int says_row(const struct function *row, void *arg)
{
    enum reach r = row->reach;

    (void)arg;
    if (r == REACH_UNSAID)
        TAP_FAIL("%s must say its .reach (functions/reach.h): what it is to a token for some "
                 "sandboxes only",
                 row->id);
    if ((takes(row, "sandboxId") && (r == REACH_ALL || r == REACH_MAKERS || r == REACH_OWNED)) ||
        ((r == REACH_SANDBOX || r == REACH_FILTER) && !takes(row, "sandboxId")) ||
        (r == REACH_OWNED && !row->owned) || (row->owned && !takes(row, row->owned->param)) ||
        (r == REACH_CLONES && !row->owned && !takes(row, "sandboxId")) ||
        (row->scope == SCOPE_ADMIN && r != REACH_NEVER))
        TAP_FAIL("the .reach of %s cannot be right: see functions/reach.h", row->id);
    return 0;
}

TEST(every_row_says_what_it_is_to_a_token_for_some_sandboxes)
{
    CHECK_INT(functions_each(says_row, NULL), 0);
}

/* The caller has another sandbox, or another label; what the row would need is there. */
static void check_unreached(const struct function *row, const struct caller *caller)
{
    const struct example *x = example_of(row);
    struct face f;

    face_init(&f, row->id, input_of(x));
    f.call.caller = caller;
    f.call.draining = true;
    if (face_run(&f) == 0)
        TAP_FAIL("%s does not fail for a token of another sandbox", row->id);
    if (f.err.kind != ERR_NOT_FOUND && strcmp(code_of(&f), "token_restricted") != 0)
        TAP_FAIL("%s fails with %s for a token of another sandbox", row->id, code_of(&f));
    if (strstr(f.err.text, "of another") || f.call.out)
        TAP_FAIL("%s tells of what others have: %s", row->id, f.err.text);
    CHECK_INT(json_array_size(f.events) + json_array_size(f.items), 0);
    face_done(&f);
}

static int unreached_row(const struct function *row, void *count)
{
    struct caller one = full_caller, label = full_caller;

    if (row->reach == REACH_ALL || row->reach == REACH_MAKERS || row->reach == REACH_ITSELF ||
        row->scope == SCOPE_NONE)
        return 0;
    (void)snprintf(one.sandbox_id, sizeof(one.sandbox_id), NO_SANDBOX);
    (void)snprintf(label.label_key, sizeof(label.label_key), "team");
    (void)snprintf(label.label_value, sizeof(label.label_value), "blue");
    sandbox_new("{\"image\": \"host\", \"metadata\": {\"team\": \"red\"}}");
    call_first(example_of(row));
    check_unreached(row, &one);
    check_unreached(row, &label);
    do_call("sandbox::kill", "{}");
    fake_images_reset();
    ++*(unsigned *)count;
    return 0;
}

TEST(no_row_leads_a_token_to_the_sandbox_of_another)
{
    unsigned count = 0;

    engine_up();
    CHECK_INT(functions_each(unreached_row, &count), 0);
    CHECK(count > 100);
    down();
}

/* And to its own each row does what it does for others. */
static void check_reached(const struct function *row, const char *create, bool by_label)
{
    const struct example *x = example_of(row);
    struct caller caller = full_caller;
    struct face f;

    sandbox_new(x->sandbox ? x->sandbox : create);
    call_first(x);
    if (by_label) {
        (void)snprintf(caller.label_key, sizeof(caller.label_key), "team");
        (void)snprintf(caller.label_value, sizeof(caller.label_value), "blue");
    } else {
        (void)snprintf(caller.sandbox_id, sizeof(caller.sandbox_id), "%s", sandbox);
    }
    face_init(&f, row->id, input_of(x));
    f.call.caller = &caller;
    f.call.draining = x->draining;
    if (x->cannot)
        face_fails(&f, x->cannot);
    else
        face_succeeds(&f);
    if (strcmp(row->id, "sandbox::kill") != 0)
        do_call("sandbox::kill", "{}");
    remove_made(f.call.out);
    face_done(&f);
    fake_images_reset();
}

static int reached_row(const struct function *row, void *count)
{
    if (row->reach != REACH_SANDBOX && row->reach != REACH_OWNED)
        return 0;
    check_reached(row, "{\"image\": \"host\"}", false);
    if (!example_of(row)->sandbox)
        check_reached(row, "{\"image\": \"host\", \"metadata\": {\"team\": \"blue\"}}", true);
    ++*(unsigned *)count;
    return 0;
}

TEST(to_its_own_sandbox_a_token_does_all_that_its_scopes_say)
{
    unsigned count = 0;

    engine_up();
    CHECK_INT(functions_each(reached_row, &count), 0);
    CHECK(count > 50);
    down();
}

/* Who may only read does not make a sandbox stand still. */
static int still_row(const struct function *row, void *count)
{
    if (!strstr(row->help, "stands still"))
        return 0;
    CHECK(row->scope != SCOPE_READ && row->scope != SCOPE_NONE);
    ++*(unsigned *)count;
    return 0;
}

TEST(what_makes_a_sandbox_stand_still_needs_more_than_read)
{
    unsigned count = 0;

    CHECK_INT(functions_each(still_row, &count), 0);
    CHECK(count >= 2); /* a snapshot and a diff */
}

static int local_row(const struct function *row, void *count)
{
    struct caller caller = full_caller;
    struct face f;

    if (!(row->flags & FUNCTION_LOCAL))
        return 0;
    caller.local = false;
    face_init(&f, row->id, input_of(example_of(row)));
    f.call.caller = &caller;
    check_refused(&f, "local_only");
    face_done(&f);
    ++*(unsigned *)count;
    return 0;
}

TEST(who_is_not_root_here_names_no_files_of_the_host)
{
    unsigned count = 0;

    up("{\"image\": \"py\"}");
    CHECK_INT(functions_each(local_row, &count), 0);
    CHECK(count > 0);
    down();
}

TEST(a_pull_over_plain_http_is_for_who_has_proved_more)
{
    static const char in[] = "{\"reference\": \"far:1\", \"insecure\": true}";
    struct caller caller = full_caller;
    struct face f;

    up("{\"image\": \"py\"}");
    caller.admin = false;
    face_text(&f, "image::pull", in);
    f.call.caller = &caller;
    check_refused(&f, "insecure_not_allowed");
    face_done(&f);
    CHECK_INT(fake_images_count(&fake_images.pulls), 0);
    do_call("image::pull", in);
    CHECK_INT(fake_images_count(&fake_images.pulls), 1);
    down();
}

/* It takes milliseconds and a megabyte to make: asking for it often must not cost that each time.
 */
TEST(the_description_is_made_once)
{
    struct face first, second;

    up("{\"image\": \"py\"}");
    face_text(&first, "system::openapi", "{}");
    face_text(&second, "system::openapi", "{}");
    CHECK_INT(face_run(&first), 0);
    CHECK_INT(face_run(&second), 0);
    CHECK(first.call.out && first.call.out == second.call.out);
    face_done(&first);
    face_done(&second);
    down();
}

TAP_MAIN
