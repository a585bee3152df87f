#include "functions/error_codes.h"

#include <stddef.h>
#include <string.h>

#define GENERAL .general = true

const struct error_code error_codes[] = {
    /* on the way to a row */
    {"bad_request", 400, GENERAL, .help = "this is not HTTP as it must be"},
    {"bad_query", 400, GENERAL, .help = "the query is malformed, or has a field twice"},
    {"bad_json", 400, GENERAL, .help = "the body is no JSON object"},
    {"json_too_deep", 400, GENERAL, .help = "the body is nested too deeply"},
    {"json_too_long", 400, GENERAL, .help = "the body has too many values"},
    {"bad_content_type", 400, GENERAL, .help = "the body has another type than it may"},
    {"unauthorized", 401, GENERAL, .help = "a token is needed and none was sent"},
    {"invalid_token", 403, GENERAL, .help = "the token is not the right one"},
    {"host_not_allowed", 403, GENERAL, .help = "the Host header names another host"},
    {"origin_not_allowed", 403, GENERAL, .help = "web pages of this origin may not call"},
    {"peer_not_allowed", 403, GENERAL, .help = "this user may not use the socket"},
    {"route_not_found", 404, GENERAL, .help = "there is no such route"},
    {"method_not_allowed", 405, GENERAL, .help = "the route takes other methods; see Allow"},
    {"uri_too_long", 414, GENERAL, .help = "the request line is too long"},
    {"bad_expectation", 417, GENERAL, .help = "an Expect header that is not known"},
    {"headers_too_large", 431, GENERAL, .help = "the headers are too long or too many"},
    {"rate_limited", 429, GENERAL, .help = "too many requests; see Retry-After"},
    {"http_version", 505, GENERAL, .help = "another version of HTTP than 1.0 and 1.1"},
    /* in any row */
    {"invalid", 400, GENERAL, .help = "a field is missing or wrong; the text names it"},
    {"too_large", 413, GENERAL, .help = "the request or what it asks for is larger than it may be"},
    {"timeout", 408, GENERAL, .help = "it took longer than it may"},
    {"internal", 500, GENERAL, .help = "a failure of ours; the daemon's log has the request"},
    {"unsupported", 501, GENERAL, .help = "this daemon cannot do that"},
    {"unavailable", 503, GENERAL, .help = "not now; try again"},
    {"busy", 503, GENERAL,
     .help = "the daemon has as many calls, or holds as much of them, as it may; see Retry-After"},
    {"scope_missing", 403, GENERAL, .help = "the token may not do this"},
    /* sandboxes */
    {"sandbox_not_found", 404, .help = "there is no sandbox with this id"},
    {"stray_not_found", 404, .help = "nothing without an owner has this id"},
    {"sandbox_not_running", 409, .help = "it is paused or stopped"},
    {"sandbox_not_paused", 409, .help = "only a paused sandbox can go on"},
    {"sandbox_limit", 429, .help = "there are as many sandboxes as there may be"},
    {"machine_full", 503,
     .help = "all sandboxes together have as much memory or as many processes as they may"},
    {"launcher_lost", 503, .help = "what makes sandboxes is being started again"},
    {"network_unsupported", 501, .help = "sandboxes have no network with this runtime"},
    {"commit_interrupted", 409, .help = "the sandbox was removed meanwhile"},
    {"no_default_command", 400, .help = "the image has no command of its own"},
    {"conflict", 409, .help = "not in its present state"},
    {"limit", 429, .help = "there are as many as there may be"},
    /* the agent in a sandbox */
    {"agent_lost", 503, .help = "the sandbox ended before the call did"},
    {"agent_timeout", 503, 408, .help = "the sandbox does not answer"},
    {"agent_protocol", 500, .help = "the sandbox answers nonsense; remove it"},
    {"sandbox_busy", 503,
     .help = "it is being committed, or has as many unanswered calls as it may; see Retry-After"},
    {"too_many_streams", 429, .help = "as many follow the sandbox's logs or ports as may"},
    {"process_limit", 429, .help = "the sandbox has as many processes as it may"},
    /* commands */
    {"bad_cwd", 400, .help = "the command cannot start in this directory"},
    {"bad_user", 400, .help = "the sandbox has no such user"},
    {"command_not_found", 400, .help = "there is no such program in the sandbox"},
    {"not_executable", 400, .help = "the program cannot be executed"},
    {"command_timeout", 408, .help = "the command was ended because its time was over"},
    {"cancelled", 409, 503, .help = "nobody waited for it any more"},
    {"upgrade_required", 400, .help = "send Upgrade: cay-exec"},
    {"exec_not_found", 404, .help = "there is no background command with this id"},
    {"log_not_found", 404, .help = "the sandbox has no such log"},
    /* files */
    {"path_traversal", 400, .help = "the path leads out of the workspace"},
    {"file_not_found", 404, .help = "there is no such file"},
    {"file_changed", 409, .help = "the file became shorter while it was read"},
    {"bad_frame", 400, .help = "an attached client sent what it may not"},
    {"file_too_large", 413, .help = "too large for one JSON answer; ask for the bytes"},
    {"not_a_file", 400, .help = "not a regular file"},
    {"not_a_directory", 400, .help = "a part of the path is no directory"},
    {"is_a_directory", 400, .help = "a directory is there"},
    {"permission_denied", 400, .help = "the sandbox's own rules forbid it"},
    {"no_space", 429, 503, .help = "the sandbox's disk is full, or the host's is low"},
    {"bad_base64", 400, .help = "content is not standard base64 with padding"},
    /* images */
    {"bad_image", 400, 413, .help = "not the name of an image, or what it names is damaged"},
    {"bad_image_name", 400, .help = "not an image name"},
    {"bad_platform", 400, .help = "not a platform such as linux/arm64"},
    {"bad_path", 400, .help = "nothing there can become an image"},
    {"bad_config", 400, 413, .help = "the image's configuration cannot be read"},
    {"bad_manifest", 400, .help = "the image's manifest cannot be read"},
    {"bad_registry_auth", 400, .help = "registry_auth cannot be sent to a registry"},
    {"bad_registry_config", 400, .help = "the operator's settings of registries are wrong"},
    {"bad_docker_config", 400, .help = "the operator's docker config cannot be read"},
    {"digest_mismatch", 400, 503, .help = "what came is not what its digest says"},
    {"name_missing", 400, .help = "the archive has no name for the image; send one"},
    {"several_images", 400, .help = "the archive has several images; name one"},
    {"ambiguous_image", 400, 409, .help = "the id is that of several images"},
    {"image_not_allowed", 403, .help = "the operator does not allow this image"},
    {"image_cap_exceeded", 403, .help = "more cpu or memory than the image may have"},
    {"image_reserved", 403, .help = "the name has a meaning that no new image can take"},
    {"insecure_not_allowed", 403, .help = "insecure is for callers with a token"},
    {"registry_denied", 403, .help = "the registry wants other credentials"},
    {"local_only", 403, .help = "only for root, on the unix socket"},
    {"image_not_found", 404, .help = "neither here nor in its registry"},
    {"image_not_installed", 404, 403, .help = "not here, and not pulled without being asked"},
    {"no_platform", 404, .help = "the image is not made for this platform"},
    {"image_exists", 409, .help = "the archive's name for its image is that of another one here"},
    {"image_in_use", 409, .help = "a sandbox uses it"},
    {"image_too_large", 413, .help = "larger than an image may be"},
    {"image_limit", 429, .help = "as many names or records of images as there may be; prune some"},
    {"pull_limit", 429, .help = "as many pulls as there may be; try again when one is done"},
    {"too_many_layers", 429, .help = "the image has as many layers as it may"},
    {"image_worker_died", 500, .help = "the image worker ended early; try again"},
    {"host_image", 501, .help = "the host image cannot be exported"},
    {"whiteout_name", 501, .help = "a file of the image has a name that no archive can hold"},
    {"image_pull_failed", 503, .help = "the registry did not give it; try again"},
    {0},
};

const struct error_code *error_code_find(const char *code, unsigned long len)
{
    for (const struct error_code *e = error_codes; e->code; e++)
        if (strlen(e->code) == len && memcmp(e->code, code, len) == 0)
            return e;
    return NULL;
}
