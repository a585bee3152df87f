#include "adapter.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

#define SHORT (64u << 10) /* longer data is told by its digest */

/* ---- data ---- */

const char *arg(const struct operation *o, const char *key)
{
    return json_string_value(json_object_get(o->args, key));
}

static json_t *digest_json(EVP_MD_CTX *digest, size_t size)
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    char hex[2 * EVP_MAX_MD_SIZE + 1] = "";
    unsigned n = 0;

    (void)EVP_DigestFinal_ex(digest, bytes, &n);
    EVP_MD_CTX_free(digest);
    for (unsigned i = 0; i < n; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    return json_pack("{s:I, s:s}", "size", (json_int_t)size, "sha256", hex);
}

static EVP_MD_CTX *digest_new(void)
{
    EVP_MD_CTX *digest = EVP_MD_CTX_new();

    (void)EVP_DigestInit_ex(digest, EVP_sha256(), NULL);
    return digest;
}

json_t *data_json(const char *data, size_t len, bool as_text)
{
    auto_buf struct buf clean = {0};
    EVP_MD_CTX *digest;

    buf_init(&clean, 4 * len + 8);
    if (as_text && len > 0) {
        (void)utf8_clean(&clean, data, len);
        data = clean.data;
        len = clean.len;
    }
    if (len > SHORT) {
        digest = digest_new();
        (void)EVP_DigestUpdate(digest, data, len);
        return digest_json(digest, len);
    }
    if (len == 0 || utf8_valid(data, len))
        return json_stringn(data ? data : "", len);
    (void)base64_encode(&clean, data, len);
    return json_pack("{s:s#}", "base64", clean.data, (int)clean.len);
}

json_t *data_of_fd(int fd)
{
    auto_free char *piece = xmalloc(SHORT + 1);
    EVP_MD_CTX *digest;
    size_t size = 0;
    ssize_t n;

    n = pread(fd, piece, SHORT + 1, 0);
    if (n >= 0 && n <= (ssize_t)SHORT)
        return data_json(piece, (size_t)n, false);
    digest = digest_new();
    while ((n = pread(fd, piece, SHORT, (off_t)size)) > 0) {
        (void)EVP_DigestUpdate(digest, piece, (size_t)n);
        size += (size_t)n;
    }
    return digest_json(digest, size);
}

static void write_pattern(int fd, size_t number, size_t size)
{
    auto_free char *block = xmalloc(1u << 16);

    for (size_t i = 0; i < 1u << 16; i++)
        block[i] = (char)(i * 31 + (i >> 8) * 17 + number);
    while (size > 0) {
        size_t n = size < 1u << 16 ? size : 1u << 16;

        (void)write_all(fd, block, n);
        size -= n;
    }
}

int data_fd(const json_t *data)
{
    const char *text = json_string_value(json_object_get(data, "base64"));
    auto_buf struct buf bytes = {0};
    FILE *file = tmpfile();
    int fd = file ? dup(fileno(file)) : -1;

    if (file)
        (void)fclose(file);
    if (fd < 0 || !data)
        return -1;
    if (text) {
        buf_init(&bytes, strlen(text) + 1);
        (void)base64_decode(&bytes, text, strlen(text));
        (void)write_all(fd, bytes.data, bytes.len);
    } else {
        write_pattern(fd, (size_t)json_integer_value(json_object_get(data, "pattern")),
                      (size_t)json_integer_value(json_object_get(data, "size")));
    }
    (void)lseek(fd, 0, SEEK_SET);
    return fd;
}

/* ---- errors ---- */

int refuse(struct operation *o, const char *code, int status, const char *message)
{
    o->error = json_pack("{s:s, s:s}", "code", code, "message", message);
    if (status)
        (void)json_object_set_new(o->error, "status", json_integer(status));
    return -1;
}

int failed(struct operation *o, const struct cay_error *err)
{
    const char *code = err->code;
    int status = err->status;

    if (strcmp(code, "daemon_unreachable") == 0 || strcmp(code, "connection_lost") == 0)
        code = "unreachable";
    if (strcmp(code, "invalid") == 0 && !status) /* what the library itself does not take */
        status = 400;
    return refuse(o, code, status, err->message);
}

/* ---- lines ---- */

struct job {
    json_t *id;
    char *name;
    struct operation operation;
    struct job *next;
};

static struct cay *cay;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over = PTHREAD_COND_INITIALIZER;
static struct job *jobs;

static void answer(json_t *id, json_t *ok, json_t *error)
{
    json_t *line = json_pack("{s:O}", "id", id);
    auto_free char *text = NULL;

    (void)json_object_set_new(line, error ? "error" : "ok",
                              error ? error
                              : ok  ? ok
                                    : json_object());
    text = json_dumps(line, JSON_COMPACT);
    json_decref(line);
    (void)pthread_mutex_lock(&lock);
    (void)printf("%s\n", text);
    (void)fflush(stdout);
    (void)pthread_mutex_unlock(&lock);
}

static void job_free(struct job *j)
{
    cay_close(j->operation.cay);
    json_decref(j->operation.args);
    json_decref(j->id);
    free(j->name);
    free(j);
}

static void *run(void *data)
{
    struct job *j = data;
    struct operation *o = &j->operation;
    operation_fn fn = command_operation(j->name);
    int r = fn ? fn(o) : plain_operation(j->name, o);

    if (r > 0)
        (void)refuse(o, "unsupported_op", 0, j->name);
    answer(j->id, o->ok, o->error);
    (void)pthread_mutex_lock(&lock);
    for (struct job **p = &jobs; *p; p = &(*p)->next) {
        if (*p == j) {
            *p = j->next;
            break;
        }
    }
    job_free(j);
    (void)pthread_cond_signal(&over);
    (void)pthread_mutex_unlock(&lock);
    return NULL;
}

static void cancel(json_t *request)
{
    json_t *which = json_object_get(json_object_get(request, "args"), "id");

    (void)pthread_mutex_lock(&lock);
    for (struct job *j = jobs; j; j = j->next)
        if (json_equal(j->id, which))
            cay_cancel(j->operation.cay);
    (void)pthread_mutex_unlock(&lock);
    answer(json_object_get(request, "id"), NULL, NULL);
}

static void begin(json_t *request)
{
    struct job *j = xcalloc(1, sizeof(*j));
    pthread_t thread;

    j->id = json_incref(json_object_get(request, "id"));
    j->name = xstrdup(json_string_value(json_object_get(request, "op")));
    j->operation.args = json_incref(json_object_get(request, "args"));
    j->operation.cay = cay_dup(cay);
    (void)pthread_mutex_lock(&lock);
    j->next = jobs;
    jobs = j;
    (void)pthread_mutex_unlock(&lock);
    if (pthread_create(&thread, NULL, run, j) == 0)
        (void)pthread_detach(thread);
}

int main(void)
{
    struct cay_error err;
    char *line = NULL;
    size_t room = 0;

    if (cay_open(NULL, &cay, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    while (getline(&line, &room, stdin) > 0) {
        json_t *request = json_loads(line, JSON_ALLOW_NUL, NULL);

        if (strcmp(json_string_value(json_object_get(request, "op")), "cancel") == 0)
            cancel(request);
        else
            begin(request);
        json_decref(request);
    }
    (void)pthread_mutex_lock(&lock);
    while (jobs)
        (void)pthread_cond_wait(&over, &lock);
    (void)pthread_mutex_unlock(&lock);
    free(line);
    cay_close(cay);
    return 0;
}
