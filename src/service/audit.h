#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct audit;
struct engine;
struct err;

/* Who did what, in files that are only ever added to: <data>/audit/audit-<number>.jsonl, one JSON
 * object a line. Each line has the digest of the one before it (prev) and its own (hash: SHA-256 of
 * the line up to `,"hash":`), so that a line that was changed, removed or put in shows. A line is
 * written when the call ends, with one write(), and synced within a second. Callable from any
 * thread. */

struct audit_config {
    const char *data_dir;
    uint32_t file_mb; /* as large as a file becomes */
    uint32_t files;   /* as many are kept; the oldest go, and a line says so */
};

/* Goes on behind what is there. What a power cut left of a last line stays, and a line says so. */
int audit_open(const struct audit_config *config, struct engine *e, struct audit **ret,
               struct err *err);
/* All that was written is synced. */
void audit_close(struct audit *a);

struct audit_entry {
    const char *who, *face, *from; /* as in struct caller */
    const char *function;          /* "cmd::run"; of what is no call a word: "daemon.started" */
    const char *sandbox_id;        /* "" or NULL = about none */
    const char *result;            /* "ok", "refused", "failed" */
    const char *code;              /* of what was not ok; NULL = none */
    const char *detail;            /* a JSON object as text, without secrets; NULL = none */
    double ms;                     /* that it took */
    /* Anybody at all can cause it: there may be few of these a second, and the others are counted
     * and told as one line (audit.suppressed). */
    bool is_common;
};

/* Never fails: where the disk is full the calls go on, /health says so, and the first line that can
 * be written again tells how many are missing (audit.lost). */
void audit_write(struct audit *a, const struct audit_entry *entry);

struct audit_query {
    int64_t since_ms;       /* 0 = any */
    uint64_t after;         /* only what has a larger n; 0 = any */
    const char *sandbox_id; /* NULL = any */
    const char *who, *function;
    uint32_t limit;
};

/* {entries: the last of those that match, oldest first, n, hash: of the newest line}. */
int audit_read(struct audit *a, const struct audit_query *q, json_t **ret, struct err *err);

/* A line of the log that an operator keeps elsewhere. */
struct audit_head {
    uint64_t n; /* its number; 0 = not known */
    bool empty; /* of a log without lines: the beginning */
    char hash[65];
};
/* "NUMBER:HASH" or the hash alone. */
int audit_head_parse(const char *text, struct audit_head *ret, struct err *err);

/* {ok, entries, firstN, n, hash, files, problem?, file?, line?, headFound?, headProblem?}: reads
 * every line. head: is its line still there? NULL = not asked. */
int audit_verify(struct audit *a, struct audit_head *head, json_t **ret, struct err *err);
