/* SPDX-License-Identifier: MIT */
/*
 * Option uri, taken apart: one broker or several, separated by commas, all
 * with TLS or all without.  A refusal says which one is wrong.  Called once
 * per transport, by the thread that makes it.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "paho_transport.h"

#define BLANKS " \t"
/* So much of a wrong uri is shown. */
#define SHOWN_BYTES 60

/* One uri within the option, borrowed from it. */
struct item {
    const char *text;
    size_t len;
    size_t number; /* from 1 */
};

static int refuse(
    const struct item *item, const char *what, struct postbag_fault *why)
{
    int shown = item->len < SHOWN_BYTES ? (int)item->len : SHOWN_BYTES;
    return postbag__paho_refuse(why, POSTBAG_EINVAL,
        "uri: number %zu, \"%.*s\": %s", item->number, shown, item->text, what);
}

/* ---- the parts of one ---------------------------------------------------- */

static const struct scheme {
    const char *prefix;
    unsigned is_tls;
    unsigned port;
} schemes[] = {
    {"tcp://", 0, 1883},
    {"mqtt://", 0, 1883},
    {"ssl://", 1, 8883},
    {"mqtts://", 1, 8883},
};

static const struct scheme *scheme_of(const struct item *item)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t len = strlen(schemes[i].prefix);
        if (item->len >= len && memcmp(item->text, schemes[i].prefix, len) == 0)
            return &schemes[i];
    }
    return NULL;
}

/* "" or ":1" to ":65535"; 0 if it is neither */
static unsigned port_of(const char *text, size_t len, unsigned otherwise)
{
    unsigned port = 0;
    if (len == 0)
        return otherwise;
    if (text[0] != ':' || len > 6)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    return port <= 65535 ? port : 0;
}

static unsigned is_address(int family, const char *text)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(family, text, bytes) == 1;
}

/* Bytes of the host, brackets not counted; 0 if there is none. */
static size_t host_len(const char *text, size_t len)
{
    const char *end = text[0] == '[' ? "]" : ":/?#[]" BLANKS;
    size_t n = 0;
    while (n < len && strchr(end, text[n]) == NULL)
        n++;
    if (text[0] != '[')
        return n;
    return n < len ? n - 1 : 0;
}

static int take_server(
    struct server *out, const struct item *item, struct postbag_fault *why)
{
    const struct scheme *scheme = scheme_of(item);
    if (scheme == NULL)
        return refuse(item, "must begin with tcp:// or ssl://", why);
    size_t skip = strlen(scheme->prefix);
    const char *rest = item->text + skip;
    size_t len = item->len - skip;
    size_t host = len > 0 ? host_len(rest, len) : 0;
    /* for a name like ".example" OpenSSL takes any below it */
    if (host == 0 || host >= sizeof(out->host) || rest[0] == '.')
        return refuse(item, "after the scheme comes host or host:port", why);
    unsigned is_bracketed = rest[0] == '[';
    size_t used = host + 2 * (size_t)is_bracketed;
    memcpy(out->host, rest + is_bracketed, host);
    out->port = port_of(rest + used, len - used, scheme->port);
    if (out->port == 0)
        return refuse(
            item, "after the host comes nothing, or :1 to :65535", why);
    unsigned is_v6 = is_address(AF_INET6, out->host);
    if (is_bracketed && !is_v6)
        return refuse(item, "between [ and ] comes an IPv6 address", why);
    out->is_tls = scheme->is_tls;
    out->is_numeric = is_v6 || is_address(AF_INET, out->host);
    return POSTBAG_OK;
}

/* ---- all ----------------------------------------------------------------- */

/* The next item from *at on; *at is NULL after the last. */
static struct item next_item(const char **at, size_t number)
{
    const char *from = *at + strspn(*at, BLANKS);
    size_t len = strcspn(from, ",");
    *at = from[len] == ',' ? from + len + 1 : NULL;
    while (len > 0 && strchr(BLANKS, from[len - 1]) != NULL)
        len--;
    return (struct item){.text = from, .len = len, .number = number};
}

static size_t count_items(const char *text)
{
    size_t count = 1;
    for (; *text != '\0'; text++)
        count += *text == ',';
    return count;
}

static int take_item(
    struct servers *out, const struct item *item, struct postbag_fault *why)
{
    int err = take_server(&out->list[out->count], item, why);
    if (err != POSTBAG_OK)
        return err;
    unsigned is_tls = out->list[out->count].is_tls;
    if (out->count > 0 && is_tls != out->is_tls)
        return refuse(item, "all must use TLS, or none", why);
    out->is_tls = is_tls;
    out->count++;
    return POSTBAG_OK;
}

int postbag__paho_servers_take(
    struct servers *out, const char *uri, struct postbag_fault *why)
{
    if (uri == NULL)
        return postbag__paho_refuse(why, POSTBAG_EINVAL, "uri: is required");
    /* not shown: it may hold a password, perhaps with a comma in it */
    if (strchr(uri, '@') != NULL)
        return postbag__paho_refuse(why, POSTBAG_EINVAL,
            "uri: user and password belong in options of their own");
    out->list = calloc(count_items(uri), sizeof(*out->list));
    if (out->list == NULL)
        return postbag__paho_refuse(why, POSTBAG_ENOMEM, "out of memory");
    int err = POSTBAG_OK;
    while (uri != NULL && err == POSTBAG_OK) {
        struct item item = next_item(&uri, out->count + 1);
        err = take_item(out, &item, why);
    }
    return err;
}

void postbag__paho_servers_free(struct servers *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->list[i].assigned_id);
    free(s->list);
    *s = (struct servers){0};
}
