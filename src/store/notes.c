#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/regular.h"
#include "base/str.h"
#include "store/store_internal.h"

/* What a disk says of itself, in a file beside it whose name says the most:
 *
 *   sandboxes/<id>.spare    made ahead and never given to anybody
 *   sandboxes/<id>.json     a sandbox, with all that its row has
 *   sandboxes/<id>.doomed   a sandbox that somebody has removed
 *
 *  1. A disk ceases to be spare before anybody hears of its sandbox: its mark becomes the note,
 *     which is written a second later (engine/writer.c). Until then it says no more than that
 *     there is a sandbox.
 *  2. Where a disk has two notes the one of the sandbox counts. A doomed one has no other.
 *  3. A disk without a note, or with one that cannot be read, is nobody's to remove but an
 *     operator's: it is of a cay that wrote none, or of one that ended at a bad moment.
 *
 * Notes are not synced: after a power cut the rows, which are, know better. The note of a sandbox
 * comes after its row and is gone for good before it, so such a note and no row is a database that
 * was lost, or an older copy of it; as is such a note and a row that says that the disk was never
 * given to anybody. */

#define NOTE_VERSION 1
#define NOTE_MAX     (16u << 20) /* bytes; far more than the largest environment makes */

/* The empty file that every mark of a spare disk is a link to, until there is something to note. */
#define MARK "mark"

enum { SPARE, SANDBOX, DOOMED, NOTES };
static const char *const endings[NOTES] = {
    [SPARE] = ".spare", [SANDBOX] = ".json", [DOOMED] = ".doomed"};

struct note_name {
    char text[ID_SIZE + 16];
};

static struct note_name name_of(const char *id, const char *ending)
{
    struct note_name n;

    (void)snprintf(n.text, sizeof(n.text), "%.*s%s", ID_SIZE - 1, id, ending);
    return n;
}

static int make_empty(int dir, const char *name)
{
    auto_close int fd = regular_open(dir, name, O_WRONLY | O_CREAT, 0600, NULL);

    return fd < 0 ? fd : 0;
}

int store_open_notes(struct store *s, const char *data_dir, struct err *err)
{
    auto_free char *path = xasprintf("%s/sandboxes", data_dir);

    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_sys(err, errno, "make %s", path);
    s->notes_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->notes_fd < 0)
        return err_sys(err, errno, "open %s", path);
    /* A new one, whatever has become of the last. Without it marks are files of their own. */
    (void)unlinkat(s->notes_fd, MARK, 0);
    (void)make_empty(s->notes_fd, MARK);
    return 0;
}

/* ---- writing ---- */

static char *note_text(const struct sandbox_row *row)
{
    json_t *head =
        json_pack("{s:i, s:s, s:s, s:s?, s:I, s:I, s:I, s:s?, s:I, s:s?}", "note", NOTE_VERSION,
                  "id", row->id, "state", sandbox_state_name(row->state), "reason", row->reason,
                  "createdMs", (json_int_t)row->created_ms, "expiresMs",
                  (json_int_t)row->expires_ms, "deadlineNs", (json_int_t)row->deadline_ns, "bootId",
                  row->boot_id, "slot", (json_int_t)row->slot, "imageId", row->image_id);
    auto_free char *text = json_dumps(head, JSON_COMPACT);

    json_decref(head);
    /* The other two are JSON already. */
    text[strlen(text) - 1] = '\0';
    return xasprintf("%s,\"config\":%s,\"imageConfig\":%s}\n", text,
                     row->config ? row->config : "null",
                     row->image_config ? row->image_config : "null");
}

static int write_note(int dir, const char *id, const char *text)
{
    struct note_name tmp = name_of(id, ".tmp"), to = name_of(id, endings[SANDBOX]);
    auto_close int fd = regular_open(dir, tmp.text, O_WRONLY | O_CREAT | O_TRUNC, 0600, NULL);
    int r = fd < 0 ? fd : write_all(fd, text, strlen(text));

    if (r == 0 && renameat(dir, tmp.text, dir, to.text) < 0)
        r = -errno;
    if (r < 0)
        (void)unlinkat(dir, tmp.text, 0);
    return r;
}

/* A link costs a fraction of a file, and most marks are gone before anything is written: what is
 * noted comes as another file, so that the one they share stays empty. A filesystem allows so many
 * links to one. */
static int mark_spare(int dir, const char *id)
{
    struct note_name name = name_of(id, endings[SPARE]);

    if (linkat(dir, MARK, dir, name.text, 0) == 0 || errno == EEXIST)
        return 0;
    return make_empty(dir, name.text);
}

/* A sandbox of a cay that wrote no notes has none to rename. */
static int mark_doomed(int dir, const char *id)
{
    if (renameat(dir, name_of(id, endings[SANDBOX]).text, dir, name_of(id, endings[DOOMED]).text) <
            0 &&
        errno != ENOENT)
        return -errno;
    return 0;
}

int store_note(struct store *s, const struct sandbox_row *row, struct err *err)
{
    auto_free char *text = NULL;
    int r;

    if (row->state == SANDBOX_PREPARED) {
        r = mark_spare(s->notes_fd, row->id);
    } else if (row->state == SANDBOX_REMOVING) {
        r = mark_doomed(s->notes_fd, row->id);
    } else {
        text = note_text(row);
        r = write_note(s->notes_fd, row->id, text);
    }
    return r < 0 ? err_sys(err, -r, "write the note beside the disk of %s", row->id) : 0;
}

void store_note_claim(struct store *s, const char *id)
{
    int dir = s->notes_fd;

    (void)renameat(dir, name_of(id, endings[SPARE]).text, dir, name_of(id, endings[SANDBOX]).text);
}

void store_note_remove(struct store *s, const char *id)
{
    /* Mostly it is the last of them, and there is no other. */
    for (int i = NOTES - 1; i >= 0; i--)
        if (unlinkat(s->notes_fd, name_of(id, endings[i]).text, 0) == 0 && i == DOOMED)
            break;
}

int store_sync_notes(struct store *s, struct err *err)
{
    return fsync(s->notes_fd) < 0 ? err_sys(err, errno, "sync the folder of the sandboxes") : 0;
}

static bool has_note(const struct store *s, const char *id, int which)
{
    return faccessat(s->notes_fd, name_of(id, endings[which]).text, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A power cut may have left an empty one. */
bool store_has_note(struct store *s, const char *id)
{
    struct stat st;

    return fstatat(s->notes_fd, name_of(id, endings[SANDBOX]).text, &st, AT_SYMLINK_NOFOLLOW) ==
               0 &&
           st.st_size > 0;
}

bool store_note_says_rubbish(struct store *s, const char *id)
{
    return !has_note(s, id, SANDBOX) && (has_note(s, id, SPARE) || has_note(s, id, DOOMED));
}

/* ---- reading ---- */

static char *slurp(int dir, const char *name)
{
    auto_close int fd = regular_open(dir, name, O_RDONLY, 0, NULL);
    struct stat st;
    auto_free char *text = NULL;

    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > NOTE_MAX)
        return NULL;
    text = xcalloc(1, (size_t)st.st_size + 1);
    return read_exact(fd, text, (size_t)st.st_size) < 0 ? NULL : steal_ptr(text);
}

static char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? xstrdup(s) : NULL;
}

static int64_t int_of(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

/* The row as it was; its process is looked for. What was being made counts as made: whoever asked
 * for it may have been answered. */
static int read_note(const json_t *o, const char *id, struct sandbox_row *row)
{
    const char *state = json_string_value(json_object_get(o, "state"));
    const char *said = json_string_value(json_object_get(o, "id"));
    json_t *config = json_object_get(o, "config"), *image = json_object_get(o, "imageConfig");
    int64_t slot = int_of(o, "slot");

    if (int_of(o, "note") != NOTE_VERSION || !said || strcmp(said, id) != 0 || !state ||
        sandbox_state_parse(state, &row->state) < 0 || !json_is_object(config) || slot < 0 ||
        slot > UINT32_MAX)
        return -1;
    if (row->state == SANDBOX_CREATING)
        row->state = SANDBOX_RUNNING;
    (void)snprintf(row->id, sizeof(row->id), "%s", id);
    row->reason = text_of(o, "reason");
    row->created_ms = int_of(o, "createdMs");
    row->expires_ms = int_of(o, "expiresMs");
    row->deadline_ns = int_of(o, "deadlineNs");
    row->boot_id = text_of(o, "bootId");
    row->slot = (uint32_t)slot;
    row->image_id = text_of(o, "imageId");
    row->config = json_dumps(config, JSON_COMPACT);
    row->image_config = json_dumps(image, JSON_COMPACT | JSON_ENCODE_ANY);
    return 0;
}

static bool has_disk(const struct store *s, const char *id)
{
    return faccessat(s->notes_fd, name_of(id, ".img").text, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
           faccessat(s->notes_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int store_note_read(struct store *s, const char *id, struct sandbox_row *ret)
{
    auto_free char *text = slurp(s->notes_fd, name_of(id, endings[SANDBOX]).text);
    json_t *o = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    int r = o ? read_note(o, id, ret) : -1;

    json_decref(o);
    return r;
}

static int take_back(struct store *s, const char *id, bool has_row, struct err *err)
{
    struct sandbox_row row = {0};
    int r = 0;

    if (store_note_read(s, id, &row) < 0) {
        if (has_row) /* by which its disk would go */
            r = store_delete_sandbox(s, id, err);
        log_error("a sandbox without a row has a note that cannot be read; `cay doctor` shows its "
                  "disk",
                  "id", id);
    } else if (!has_disk(s, id)) {
        log_warn("the note of a sandbox whose disk is gone was removed", "id", id);
        store_note_remove(s, id);
    } else {
        r = store_put_sandbox(s, &row, err);
        if (r == 0)
            log_warn("a sandbox was taken back from the note beside its disk", "id", id, "state",
                     sandbox_state_name(row.state));
    }
    sandbox_row_done(&row);
    return r;
}

static int visit(struct store *s, char *name, struct err *err)
{
    char *dot = strrchr(name, '.');
    bool is_spare = false;

    if (!dot)
        return 0;
    if (strcmp(dot, ".tmp") == 0) {
        (void)unlinkat(s->notes_fd, name, 0);
        return 0;
    }
    if (strcmp(dot, endings[SANDBOX]) != 0)
        return 0;
    *dot = '\0';
    if (!id_valid(name, "sbx") || (store_row_of(s, name, &is_spare) && !is_spare))
        return 0;
    return take_back(s, name, is_spare, err);
}

int store_take_back(struct store *s, struct err *err)
{
    int fd = openat(s->notes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;
    int r = 0;

    if (!dir) {
        close_fd(&fd);
        return err_sys(err, errno, "read the folder of the sandboxes");
    }
    store_begin(s);
    while (r == 0 && (errno = 0, e = readdir(dir)))
        r = visit(s, e->d_name, err);
    if (r == 0 && errno != 0)
        r = err_sys(err, errno, "read the folder of the sandboxes");
    (void)closedir(dir);
    return store_commit(s, r < 0 ? NULL : err) < 0 ? -1 : r;
}
