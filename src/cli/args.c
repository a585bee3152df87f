#include "cli/args.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/hints.h"

const struct flag common_flags[] = {
    {"host", 0, FLAG_TEXT, "ADDRESS", "daemon to talk to: unix:/path or http://host:port",
     .is_here = true},
    {"help", 'h', FLAG_BOOL, NULL, "show this help"},
    {0},
};

static const struct flag no_flags[] = {{0}};

/* The flag at an index that counts the command's own flags first, then the common ones. */
static const struct flag *flag_at(const struct command *command, size_t index)
{
    const struct flag *flags = command->flags ? command->flags : no_flags;
    size_t n = 0;

    for (; flags[n].name; n++) {
        if (n == index)
            return &flags[n];
    }
    for (size_t i = 0; common_flags[i].name; i++) {
        if (n + i == index)
            return &common_flags[i];
    }
    return NULL;
}

static bool is_called(const char *name, const char *word, size_t len)
{
    return name && strlen(name) == len && memcmp(name, word, len) == 0;
}

static const struct flag *find_long(const struct command *command, const char *name, size_t len,
                                    size_t *ret_index)
{
    const struct flag *flag;

    for (size_t i = 0; (flag = flag_at(command, i)); i++) {
        if (is_called(flag->name, name, len) || is_called(flag->also, name, len)) {
            *ret_index = i;
            return flag;
        }
    }
    return NULL;
}

static const struct flag *find_short(const struct command *command, char letter, size_t *ret_index)
{
    const struct flag *flag;

    for (size_t i = 0; (flag = flag_at(command, i)); i++) {
        if (flag->letter == letter) {
            *ret_index = i;
            return flag;
        }
    }
    return NULL;
}

const struct flag *flag_by_name(const struct command *command, const char *name, size_t len)
{
    return find_long(command, name, len, &(size_t){0});
}

const struct flag *flag_by_letter(const struct command *command, char letter)
{
    return find_short(command, letter, &(size_t){0});
}

bool list_has(const char *list, const char *word, size_t len)
{
    while (*list) {
        size_t n = strcspn(list, " ");

        if (n == len && memcmp(list, word, n) == 0)
            return true;
        list += n + (list[n] == ' ');
    }
    return false;
}

static int unknown_flag(const struct command *command, const char *arg, size_t name_len,
                        struct err *err)
{
    auto_free char *name = xstrndup(arg + strspn(arg, "-"), name_len);
    const char *instead = hint_flag(command->name, name);
    const struct flag *flag, *best = NULL;
    size_t least = 3;

    if (instead)
        return err_set(err, ERR_INVALID, "%.*s: %s",
                       (int)(name_len + (size_t)(str_starts(arg, "--") ? 2 : 1)), arg, instead);
    for (size_t i = 0; (flag = flag_at(command, i)); i++) {
        size_t d = str_distance(name, flag->name);

        if (d < least && d < strlen(flag->name)) {
            least = d;
            best = flag;
        }
    }
    if (best)
        return err_set(err, ERR_INVALID, "unknown flag \"%s\": did you mean \"--%s\"?", arg,
                       best->name);
    return err_set(err, ERR_INVALID, "unknown flag \"%s\": see \"cay help %s\"", arg,
                   command->name);
}

static int unknown_letter(const struct command *command, const char *arg, char letter,
                          struct err *err)
{
    const char name[] = {letter, '\0'}, *instead = hint_flag(command->name, name);

    if (instead)
        return err_set(err, ERR_INVALID, "-%s: %s", name, instead);
    return unknown_flag(command, arg, strlen(arg) - 1, err);
}

/* A decimal number with one of the units; "name=factor" pairs would be longer than this table. */
struct unit {
    const char *name;
    double factor;
};

static const struct unit time_units[] = {{"", 1},     {"ms", 0.001}, {"s", 1}, {"m", 60},
                                         {"h", 3600}, {"d", 86400},  {0}};
static const struct unit mb_units[] = {{"", 1},     {"M", 1},    {"m", 1},     {"MB", 1},
                                       {"G", 1024}, {"g", 1024}, {"GB", 1024}, {0}};
static const struct unit no_units[] = {{"", 1}, {0}};

#define NUMBER_MAX 9007199254740992.0 /* up to here it can be told as a whole number */

static int parse_number(const char *text, const struct unit *units, double *ret)
{
    double v;
    char *end;

    /* strtod also takes "inf", "0x1p3" and leading space, which nobody means here. */
    if (text[strspn(text, "0123456789.")] != '\0' || strpbrk(text, "0123456789") == NULL) {
        if (text[0] < '0' || text[0] > '9' || text[1] == 'x')
            return -EINVAL;
    }
    errno = 0;
    v = strtod(text, &end);
    if (errno || end == text || !isfinite(v))
        return -EINVAL;
    for (; units->name; units++) {
        if (strcmp(end, units->name) == 0) {
            *ret = v * units->factor;
            return *ret <= NUMBER_MAX ? 0 : -EINVAL;
        }
    }
    return -EINVAL;
}

int args_time(const char *text, double *ret)
{
    return parse_number(text, time_units, ret);
}

/* What goes to the daemon has no other form. To leave it out could mean something else: a token
 * that is for all sandboxes, say. */
static int check_text(const struct flag *flag, const char *text, struct err *err)
{
    if (flag->is_here || utf8_valid(text, strlen(text)))
        return 0;
    return err_set(err, ERR_INVALID, "--%s needs UTF-8 text, not \"%.80s\"", flag->name, text);
}

static int set_value(struct arg_value *value, const struct flag *flag, const char *text,
                     struct err *err)
{
    uint64_t count;

    if (flag->choices && flag->kind != FLAG_MAYBE && !list_has(flag->choices, text, strlen(text)))
        return err_set(err, ERR_INVALID, "--%s needs one of: %s; not \"%.80s\"", flag->name,
                       flag->choices, text);
    value->set = true;
    value->text = text;
    switch (flag->kind) {
    case FLAG_BOOL:
        return 0;
    case FLAG_TEXT:
    case FLAG_MAYBE:
        return check_text(flag, text, err);
    case FLAG_LIST:
        value->list = strv_add(value->list, text);
        return check_text(flag, text, err);
    case FLAG_COUNT:
        if (str_u64(text, &count) < 0 || count > UINT32_MAX)
            return err_set(err, ERR_INVALID, "--%s needs a whole number, not \"%s\"", flag->name,
                           text);
        value->number = (double)count;
        return 0;
    case FLAG_NUMBER:
        if (parse_number(text, no_units, &value->number) < 0)
            return err_set(err, ERR_INVALID, "--%s needs a number, not \"%s\"", flag->name, text);
        return 0;
    case FLAG_TIME:
        if (parse_number(text, time_units, &value->number) < 0)
            return err_set(err, ERR_INVALID,
                           "--%s needs a time such as 30, 500ms, 30s, 5m, 2h or 7d, not \"%s\"",
                           flag->name, text);
        return 0;
    case FLAG_MB:
        if (parse_number(text, mb_units, &value->number) < 0)
            return err_set(err, ERR_INVALID, "--%s needs megabytes, such as 512 or 2G, not \"%s\"",
                           flag->name, text);
        return 0;
    }
    return 0;
}

/* Of a FLAG_MAYBE without =. */
static const char *maybe_value(const struct flag *flag, int argc, char **argv, int *i)
{
    const char *next = *i + 1 < argc ? argv[*i + 1] : "";

    if (!*next || !list_has(flag->choices, next, strlen(next)))
        return "";
    ++*i;
    return next;
}

/* "--name", "--name=value" or "--name value"; *i moves past a value that is a word of its own. */
static int parse_long(struct args *args, char **argv, int argc, int *i, struct err *err)
{
    const char *arg = argv[*i];
    const char *equals = strchr(arg, '=');
    size_t len = equals ? (size_t)(equals - arg) - 2 : strlen(arg) - 2;
    size_t index;
    const struct flag *flag = find_long(args->command, arg + 2, len, &index);

    if (!flag)
        return unknown_flag(args->command, arg, len, err);
    if (flag->kind == FLAG_BOOL) {
        if (equals)
            return err_set(err, ERR_INVALID, "--%s takes no value", flag->name);
        return set_value(&args->values[index], flag, "", err);
    }
    /* An empty variable in a script is not meant as the flag alone. */
    if (equals && flag->kind == FLAG_MAYBE && !equals[1])
        return err_set(err, ERR_INVALID, "--%s= has no value; without = it is --%s alone",
                       flag->name, flag->name);
    if (equals)
        return set_value(&args->values[index], flag, equals + 1, err);
    if (flag->kind == FLAG_MAYBE)
        return set_value(&args->values[index], flag, maybe_value(flag, argc, argv, i), err);
    if (*i + 1 >= argc)
        return err_set(err, ERR_INVALID, "--%s needs a value: --%s %s", flag->name, flag->name,
                       flag->value);
    return set_value(&args->values[index], flag, argv[++*i], err);
}

/* "-q", "-it", "-n5", "-n 5". */
static int parse_short(struct args *args, char **argv, int argc, int *i, struct err *err)
{
    const char *arg = argv[*i];

    for (const char *p = arg + 1; *p; p++) {
        size_t index;
        const struct flag *flag = find_short(args->command, *p, &index);

        if (!flag)
            return unknown_letter(args->command, arg, *p, err);
        if (flag->kind == FLAG_BOOL) {
            (void)set_value(&args->values[index], flag, "", err);
            continue;
        }
        if (p[1])
            return set_value(&args->values[index], flag, p + 1, err);
        if (*i + 1 >= argc)
            return err_set(err, ERR_INVALID, "-%c needs a value: -%c %s", *p, *p, flag->value);
        return set_value(&args->values[index], flag, argv[++*i], err);
    }
    return 0;
}

static int check_words(const struct args *args, struct err *err)
{
    const struct command *c = args->command;

    if (args->n_words < c->words_min)
        return err_set(err, ERR_INVALID,
                       "%s needs more arguments: cay %s %.*s; see \"cay help %s\"", c->name,
                       c->name, (int)strcspn(c->usage, "\n"), c->usage, c->name);
    if (args->n_words > c->words_max && c->apart)
        return err_set(err, ERR_INVALID,
                       "\"%.80s\" is one argument too many: the command stands after \"--\"; see "
                       "\"cay help %s\"",
                       args->words[c->words_max], c->name);
    if (args->n_words > c->words_max)
        return err_set(err, ERR_INVALID, "\"%s\" is one argument too many: see \"cay help %s\"",
                       args->words[c->words_max], c->name);
    /* No program is called so; it is a flag of ours that came too late. With a template there is no
     * image, and the word before it is the program. */
    if (args->n_rest > 0 && !args->exact && args->rest[0][0] == '-' &&
        !(flag_by_name(c, "template", strlen("template")) && args_has(args, "template")))
        return err_set(err, ERR_INVALID,
                       "\"%.80s\" comes after \"%.80s\": flags of cay stand before it, and what "
                       "follows is the command",
                       args->rest[0], args->words[0]);
    return 0;
}

/* What is left is the command line to run. */
static void take_rest(struct args *args, int argc, char **argv)
{
    args->exact = argc > 0 && strcmp(argv[0], "--") == 0;
    if (argc == 0)
        return;
    args->rest = argv + args->exact;
    args->n_rest = (size_t)(argc - args->exact);
}

static int parse_one(struct args *args, int argc, char **argv, int *i, struct err *err)
{
    const struct command *command = args->command;

    if (command->apart && strcmp(argv[*i], "--") == 0) {
        take_rest(args, argc - *i, argv + *i);
        *i = argc;
        return 0;
    }
    if (strcmp(argv[*i], "--") == 0) {
        while (++*i < argc && !(command->rest && args->n_words > 0))
            args->words[args->n_words++] = argv[*i];
        if (command->rest)
            take_rest(args, argc - *i, argv + *i);
        *i = argc;
        return 0;
    }
    if (str_starts(argv[*i], "--"))
        return parse_long(args, argv, argc, i, err);
    if (argv[*i][0] == '-' && argv[*i][1])
        return parse_short(args, argv, argc, i, err);
    args->words[args->n_words++] = argv[*i];
    if (command->rest) {
        take_rest(args, argc - *i - 1, argv + *i + 1);
        *i = argc;
    }
    return 0;
}

int args_parse(struct args *ret, const struct command *command, int argc, char **argv,
               struct err *err)
{
    *ret = (struct args){.command = command};
    ret->words = xcalloc((size_t)argc + 1, sizeof(char *));
    for (int i = 0; i < argc; i++) {
        /* `cay run -- echo`: an image is not named. */
        if (command->rest && command->words_min == 0 && strcmp(argv[i], "--") == 0) {
            take_rest(ret, argc - i, argv + i);
            break;
        }
        if (parse_one(ret, argc, argv, &i, err) < 0) {
            args_done(ret);
            return -1;
        }
    }
    if (!args_has(ret, "help") && check_words(ret, err) < 0) {
        args_done(ret);
        return -1;
    }
    return 0;
}

void args_done(struct args *args)
{
    for (size_t i = 0; i < ARGS_FLAGS_MAX; i++)
        strv_free(args->values[i].list);
    free(args->words);
    *args = (struct args){0};
}

static const struct arg_value *value_of(const struct args *args, const char *name)
{
    size_t index;

    if (!find_long(args->command, name, strlen(name), &index))
        abort();
    return &args->values[index];
}

bool args_has(const struct args *args, const char *name)
{
    return value_of(args, name)->set;
}

const char *args_text(const struct args *args, const char *name)
{
    return value_of(args, name)->text;
}

double args_number(const struct args *args, const char *name, double preset)
{
    const struct arg_value *value = value_of(args, name);

    return value->set ? value->number : preset;
}

int64_t args_since_ms(const struct args *args)
{
    double ms = (double)now_ms() - args_number(args, "since", 0) * 1000;

    return ms > 0 ? (int64_t)ms : 0;
}

char **args_list(const struct args *args, const char *name)
{
    return value_of(args, name)->list;
}
