/* A line as words, and the id of a sandbox as a UUID. Words are no longer than the line; what is
 * quoted again and joined splits into the same words. A UUID that is taken is that of its id. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "functions/iii.h"
#include "functions/iii_shlex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void add_quoted(struct buf *line, const char *word)
{
    (void)buf_add_str(line, "'");
    for (; *word; word++)
        (void)(*word == '\'' ? buf_add_str(line, "'\\''") : buf_add(line, word, 1));
    (void)buf_add_str(line, "' ");
}

static void check_words(const char *text, char **words)
{
    auto_buf struct buf line = {0};
    auto_strv char **again = NULL;
    size_t n = 0, bytes = 0;

    buf_init(&line, 16 * strlen(text) + 64);
    for (; words && words[n]; n++) {
        bytes += strlen(words[n]);
        add_quoted(&line, words[n]);
    }
    require(bytes <= strlen(text) && n <= strlen(text));
    require(shlex_split(line.data ? line.data : "", &again) == 0);
    for (size_t i = 0; i < n; i++)
        require(again && again[i] && strcmp(again[i], words[i]) == 0);
    require(!again || !again[n]);
}

static void check_uuid(const char *text)
{
    char id[ID_SIZE], uuid[UUID_SIZE], back[ID_SIZE];

    if (iii_id_of_uuid(text, id, NULL) < 0)
        return;
    require(id_valid(id, "sbx"));
    iii_uuid_of_id(id, uuid);
    require(iii_id_of_uuid(uuid, back, NULL) == 0 && strcmp(id, back) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    auto_free char *text = xstrndup((const char *)data, size);
    auto_strv char **words = NULL;
    int r = shlex_split(text, &words);

    require(r == 0 || (r == -EINVAL && !words));
    if (r == 0)
        check_words(text, words);
    check_uuid(text);
    return 0;
}
