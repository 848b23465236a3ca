/* SPDX-License-Identifier: MIT */
/* Everything here comes from the one table in options.h. */
#include "config.h"

#include <string.h>

#include "abi.h"
#include "error.h"
#include "mem.h"
#include "postbag/transport.h"
#include "topicfilter.h"

struct range {
    const char *name, *unit;
    uint32_t min, max;
};

/* Only the first error is told. */
struct taking {
    int err;
    struct postbag_fault *why;
};

static void take_u32(
    struct taking *t, uint32_t *value, uint32_t def, const struct range *range)
{
    if (*value == 0)
        *value = def;
    if (t->err != POSTBAG_OK || (*value >= range->min && *value <= range->max))
        return;
    t->err = postbag__fail(t->why, POSTBAG_EINVAL,
        "option %s is %lu; it must be %lu..%lu %s", range->name,
        (unsigned long)*value, (unsigned long)range->min,
        (unsigned long)range->max, range->unit);
}

/* *value points to the caller's text and becomes our copy; after an error
 * NULL, so that free never meets the caller's. */
static void take_str(struct taking *t, const char **value, const char *def,
    const struct range *range)
{
    const char *text = *value == NULL ? def : *value;
    size_t len = strlen(text);

    *value = NULL;
    if (t->err != POSTBAG_OK)
        return;
    if (len < range->min || len > range->max) {
        t->err = postbag__fail(t->why, POSTBAG_EINVAL,
            "option %s has %zu bytes; it must have %lu..%lu", range->name, len,
            (unsigned long)range->min, (unsigned long)range->max);
        return;
    }
    *value = postbag__copy(text);
    if (*value == NULL)
        t->err = postbag__fail(t->why, POSTBAG_ENOMEM, "no memory for options");
}

/* Of each option, by the TAKE_U32 and TAKE_STR of the place. */
#define TAKE(kind, field, def, low, high, what, help) \
    { \
        const struct range range = { \
            .name = #field, .unit = what, .min = low, .max = high}; \
        TAKE_##kind(field, def, &range) \
    }

static int take_options(struct postbag_config *c, struct postbag_fault *why)
{
    struct taking t = {.err = POSTBAG_OK, .why = why};

#define TAKE_U32(field, def, range) take_u32(&t, &c->field, def, range);
#define TAKE_STR(field, def, range) take_str(&t, &c->field, def, range);
    POSTBAG_OPTION_MAP(TAKE)
#undef TAKE_STR
#undef TAKE_U32
    return t.err;
}

int postbag__config_u32(
    const char *name, uint32_t *value, struct postbag_fault *why)
{
    static const struct {
        uint32_t def;
        struct range range;
    } all[] = {
#define ROW(kind, field, def, low, high, what, help) \
    ROW_##kind(field, def, low, high, what)
#define ROW_U32(field, def, low, high, what) \
    {def, {.name = #field, .unit = what, .min = low, .max = high}},
#define ROW_STR(field, def, low, high, what)
        POSTBAG_OPTION_MAP(ROW)
#undef ROW_STR
#undef ROW_U32
#undef ROW
    };
    struct taking t = {.err = POSTBAG_OK, .why = why};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(name, all[i].range.name) == 0)
            take_u32(&t, value, all[i].def, &all[i].range);
    return t.err;
}

/* These leave with messages or stand for topics.  A broker hangs up on a
 * control character (MQTT 5, 1.5.4), and every message would be dead. */
static int check_texts(
    const struct postbag_config *c, struct postbag_fault *why)
{
    const struct {
        const char *name, *text;
    } all[] = {
        {"dest", c->dest},
        {"source", c->source},
        {"envelope", c->envelope},
        {"identity", c->identity},
        {"reply_topics", c->reply_topics},
        {"profile", c->profile},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].text != NULL &&
            !postbag_is_mqtt_text(all[i].text, strlen(all[i].text)))
            return postbag__fail(why, POSTBAG_EINVAL,
                "option %s is not UTF-8, or has a control character",
                all[i].name);
    return POSTBAG_OK;
}

int postbag__config_copy(struct postbag_config *out,
    const struct postbag_config *from, struct postbag_fault *why)
{
    struct postbag_config raw;
    int err = postbag__adopt(&raw, sizeof(raw), from);

    memset(out, 0, sizeof(*out));
    if (err != POSTBAG_OK)
        return postbag__fail(why, err,
            "config: struct_size is not set, or the program was built for a"
            " newer Postbag and uses an option that this one does not know");
    if (raw.db_path == NULL || raw.port == NULL || raw.transport == NULL)
        return postbag__fail(why, POSTBAG_EINVAL,
            "config: db_path, port and transport are required");
    *out = raw;
    out->db_path = NULL;
    err = take_options(out, why);
    if (err == POSTBAG_OK)
        err = check_texts(out, why);
    if (err != POSTBAG_OK)
        return err;
    if (!postbag__filters_are_valid(out->reply_topics))
        return postbag__fail(why, POSTBAG_EINVAL,
            "option reply_topics is not a list of MQTT topic filters");
    out->db_path = postbag__copy(raw.db_path);
    if (out->db_path == NULL)
        return postbag__fail(why, POSTBAG_ENOMEM, "no memory for options");
    return POSTBAG_OK;
}

static void free_str(const char **value)
{
    union {
        const char *in;
        void *out;
    } text = {.in = *value};

    postbag__free(text.out);
    *value = NULL;
}

static void free_u32(const uint32_t *value)
{
    (void)value;
}

void postbag__config_free(struct postbag_config *c)
{
#define FREE_U32(field) free_u32(&c->field);
#define FREE_STR(field) free_str(&c->field);
#define FREE(kind, field, def, low, high, what, help) FREE_##kind(field)
    POSTBAG_OPTION_MAP(FREE)
#undef FREE
#undef FREE_STR
#undef FREE_U32
    free_str(&c->db_path);
}
