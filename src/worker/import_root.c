/* The root of a file system, from a folder or an archive: an image of one layer, without settings.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "worker/worker.h"

#define ONLY_LAYER "0"

/* Tells how far it is, on a thread of its own. */
struct teller {
    const struct layer *layer;
    uint64_t total; /* of an archive; 0 = not known */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool end;
    pthread_t thread;
};

static void tell(const struct teller *t, const char *state)
{
    /* The archive is read with this descriptor, so its position is what came in. */
    off_t at = t->total > 0 ? lseek(FD_OTHER, 0, SEEK_CUR) : 0;

    event_send(json_pack("{s:s, s:i, s:s, s:s, s:I, s:I, s:I}", "event", "layer", "index", 0,
                         "digest", "", "state", state, "downloaded", (json_int_t)(at > 0 ? at : 0),
                         "total", (json_int_t)t->total, "unpacked", (json_int_t)t->layer->bytes));
}

static void *keep_telling(void *arg)
{
    struct teller *t = arg;

    (void)pthread_mutex_lock(&t->lock);
    while (!t->end) {
        tell(t, "unpacking");
        event_pause(&t->ended, &t->lock);
    }
    (void)pthread_mutex_unlock(&t->lock);
    return NULL;
}

static int start_telling(struct teller *t, const struct layer *l, bool is_dir, struct err *err)
{
    struct stat st;
    int r;

    *t = (struct teller){
        .layer = l, .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};
    if (!is_dir && fstat(FD_OTHER, &st) == 0)
        t->total = (uint64_t)st.st_size;
    r = pthread_create(&t->thread, NULL, keep_telling, t);
    return r != 0 ? err_sys(err, r, "start a thread") : 0;
}

static void stop_telling(struct teller *t)
{
    (void)pthread_mutex_lock(&t->lock);
    t->end = true;
    (void)pthread_cond_signal(&t->ended);
    (void)pthread_mutex_unlock(&t->lock);
    (void)pthread_join(t->thread, NULL);
    tell(t, "done");
}

static int copy_root(struct layer *l, char ret_diff_id[DIGEST_HEX], struct err *err)
{
    auto_close int images = openat(FD_LAYERS, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    EVP_MD_CTX *sha = digest_new();
    int r;

    if (images < 0)
        r = err_sys(err, errno, "look at the image store");
    else
        r = copy_tree(FD_OTHER, images, l, sha, err);
    digest_end(sha, ret_diff_id);
    if (r == 0 && l->entries <= 1) /* the top itself */
        return err_code(err, ERR_INVALID, "bad_image", "the folder is empty");
    return r;
}

static int fill(const struct worker_request *q, bool is_dir, char ret_diff_id[DIGEST_HEX],
                json_t **ret, struct err *err)
{
    char name[DIGEST_HEX];
    auto_close int root = -1;
    struct teller t;
    struct layer l;

    if (layer_begin(q, ONLY_LAYER, &l, &root, err) < 0 || start_telling(&t, &l, is_dir, err) < 0)
        return -1;
    if ((is_dir ? copy_root(&l, ret_diff_id, err) : unpack_file(FD_OTHER, &l, ret_diff_id, err)) <
        0)
        event_fail(err); /* the thread still tells */
    stop_telling(&t);
    if (layer_check_points(&root, 1, err) < 0)
        return -1;
    /* Not its diff id: as a layer of another image the same archive would be read otherwise. */
    bound_name("root", ret_diff_id, name);
    return layer_made(q, &l, ONLY_LAYER, name, ret, err);
}

int worker_import_root(const struct worker_request *q, bool is_dir, json_t **ret, struct err *err)
{
    auto_free char *text = NULL;
    char diff_id[DIGEST_HEX];
    json_t *document, *layer, *image;

    if (fill(q, is_dir, diff_id, &layer, err) < 0)
        return -1;
    document = document_new(diff_id);
    text = document_text(document);
    json_decref(document);
    if (document_image(text, strlen(text), &image, err) < 0)
        return -1;
    (void)json_object_set_new(image, "layers", json_pack("[o]", layer));
    *ret = image;
    return 0;
}
