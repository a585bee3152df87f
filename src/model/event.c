#include "model/event.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEQ_DIGITS 16

void event_id(char ret[ID_SIZE], int64_t seq, uint32_t salt)
{
    (void)snprintf(ret, ID_SIZE, "evt_%016" PRIx64 "%08" PRIx32, (uint64_t)seq, salt);
}

bool event_id_seq(const char *id, int64_t *ret)
{
    char digits[SEQ_DIGITS + 1];
    uint64_t seq;

    if (!id_valid(id, "evt"))
        return false;
    memcpy(digits, id + 4, SEQ_DIGITS);
    digits[SEQ_DIGITS] = '\0';
    seq = strtoull(digits, NULL, 16);
    if (seq > INT64_MAX)
        return false;
    *ret = (int64_t)seq;
    return true;
}

static bool is_topic(const char *s, size_t len)
{
    return len > 0 && len <= TOPIC_MAX && strspn(s, TOPIC_CHARS) >= len;
}

bool topic_valid(const char *topic)
{
    return is_topic(topic, strlen(topic));
}

bool topics_valid(const char *topics)
{
    if (strlen(topics) > TOPICS_MAX)
        return false;
    for (const char *s = topics;; s++) {
        size_t len = strcspn(s, ",");
        bool glob = len > 0 && s[len - 1] == '*';

        if (!(glob && len == 1) && !is_topic(s, glob ? len - 1 : len))
            return false;
        s += len;
        if (!*s)
            return true;
    }
}

bool topics_match(const char *topics, const char *topic)
{
    for (const char *s = topics; s; s++) {
        size_t len = strcspn(s, ",");

        if (len > 0 && s[len - 1] == '*' ? strncmp(s, topic, len - 1) == 0
                                         : strncmp(s, topic, len) == 0 && topic[len] == '\0')
            return true;
        s += len;
        if (!*s)
            return false;
    }
    return true;
}
