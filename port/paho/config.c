/* SPDX-License-Identifier: MIT */
/*
 * Options of postbag_paho_new: checked against the table in paho.h, copied,
 * defaults filled in.  A refusal names the option and never shows the value
 * of a secret.  Called once per transport, by the thread that makes it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paho_transport.h"

int postbag__paho_refuse(
    struct postbag_fault *why, int code, const char *format, ...)
{
    if (why == NULL)
        return code;
    va_list args;
    va_start(args, format);
    why->code = code;
    why->cause = 0;
    (void)vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    return code;
}

struct range {
    const char *name;
    uint32_t min;
    uint32_t max;
};

static int take_u32(uint32_t *out, uint32_t in, uint32_t def,
    const struct range *range, struct postbag_fault *why)
{
    *out = in == 0 ? def : in;
    if (*out >= range->min && *out <= range->max)
        return POSTBAG_OK;
    return postbag__paho_refuse(why, POSTBAG_EINVAL,
        "%s: %lu is not within %lu to %lu", range->name, (unsigned long)in,
        (unsigned long)range->min, (unsigned long)range->max);
}

/* No option of this port has a default text. */
static int take_str(const char **out, const char *in, const struct range *range,
    struct postbag_fault *why)
{
    if (in == NULL)
        return POSTBAG_OK;
    size_t len = strlen(in);
    if (len < range->min || len > range->max)
        return postbag__paho_refuse(why, POSTBAG_EINVAL,
            "%s: %zu bytes long, not within %lu to %lu", range->name, len,
            (unsigned long)range->min, (unsigned long)range->max);
    *out = strdup(in);
    if (*out == NULL)
        return postbag__paho_refuse(why, POSTBAG_ENOMEM, "out of memory");
    return POSTBAG_OK;
}

#define RANGE(name, min, max) \
    &(const struct range) \
    { \
#name, min, max \
    }
#define TAKE_U32(name, def, min, max) \
    take_u32(&out->name, in->name, def, RANGE(name, min, max), why)
#define TAKE_STR(name, def, min, max) \
    take_str(&out->name, in->name, RANGE(name, min, max), why)
#define TAKE(kind, name, def, min, max, unit, help) \
    if (err == POSTBAG_OK) \
        err = TAKE_##kind(name, def, min, max);

static int take_values(struct postbag_paho_config *out,
    const struct postbag_paho_config *in, struct postbag_fault *why)
{
    int err = POSTBAG_OK;
    POSTBAG_PAHO_OPTION_MAP(TAKE)
    return err;
}

/* Copy what both sides know; what only the caller knows must be zero. */
static int take_struct(struct postbag_paho_config *out,
    const struct postbag_paho_config *in, struct postbag_fault *why)
{
    if (in == NULL || in->struct_size < sizeof(in->struct_size))
        return postbag__paho_refuse(
            why, POSTBAG_EINVAL, "struct_size is not set");
    size_t size = in->struct_size;
    const unsigned char *bytes = (const unsigned char *)in;
    for (size_t i = sizeof(*out); i < size; i++) {
        if (bytes[i] != 0)
            return postbag__paho_refuse(
                why, POSTBAG_EVERSION, "an option is newer than this library");
    }
    memcpy(out, in, size < sizeof(*out) ? size : sizeof(*out));
    return POSTBAG_OK;
}

/* ---- uri ----------------------------------------------------------------- */

static const struct scheme {
    const char *prefix;
    unsigned is_tls;
} schemes[] = {
    {"tcp://", 0},
    {"mqtt://", 0},
    {"ssl://", 1},
    {"mqtts://", 1},
};

static const char *skip_scheme(const char *uri, unsigned *is_tls)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t len = strlen(schemes[i].prefix);
        if (strncmp(uri, schemes[i].prefix, len) == 0) {
            *is_tls = schemes[i].is_tls;
            return uri + len;
        }
    }
    return NULL;
}

/* "" or ":1" to ":65535" */
static unsigned is_port(const char *text)
{
    if (*text == '\0')
        return 1;
    size_t digits = strspn(text + 1, "0123456789");
    if (*text != ':' || digits < 1 || digits > 5 || text[1 + digits] != '\0')
        return 0;
    long port = strtol(text + 1, NULL, 10);
    return port >= 1 && port <= 65535;
}

static unsigned is_host_and_port(const char *text)
{
    if (*text == '[') {
        const char *end = strchr(text, ']');
        return end != NULL && end > text + 1 && is_port(end + 1);
    }
    /* '@': Paho would look up "user:secret@host" as a name */
    size_t host = strcspn(text, ":/@?# \t");
    return host > 0 && is_port(text + host);
}

static int check_uri(
    const char *uri, unsigned *is_tls, struct postbag_fault *why)
{
    if (uri == NULL)
        return postbag__paho_refuse(why, POSTBAG_EINVAL, "uri: is required");
    const char *rest = skip_scheme(uri, is_tls);
    if (rest == NULL)
        return postbag__paho_refuse(
            why, POSTBAG_EINVAL, "uri: must begin with tcp:// or ssl://");
    if (!is_host_and_port(rest))
        return postbag__paho_refuse(why, POSTBAG_EINVAL,
            "uri: after the scheme comes host or host:port, nothing else");
#ifndef POSTBAG_WITH_TLS
    if (*is_tls)
        return postbag__paho_refuse(why, POSTBAG_EINVAL,
            "uri: ssl:// needs a build with POSTBAG_WITH_TLS");
#endif
    return POSTBAG_OK;
}

/* ---- what belongs together ----------------------------------------------- */

static int check_tls(const struct postbag_paho_config *c, unsigned is_tls,
    struct postbag_fault *why)
{
    const char *needs_tls = c->ca_file != NULL     ? "ca_file"
                            : c->ca_path != NULL   ? "ca_path"
                            : c->cert_file != NULL ? "cert_file"
                                                   : NULL;
    if (needs_tls != NULL && !is_tls)
        return postbag__paho_refuse(
            why, POSTBAG_EINVAL, "%s: needs a uri with ssl://", needs_tls);
    if (c->key_file != NULL && c->cert_file == NULL)
        return postbag__paho_refuse(
            why, POSTBAG_EINVAL, "key_file: needs cert_file");
    if (c->key_password != NULL && c->cert_file == NULL)
        return postbag__paho_refuse(
            why, POSTBAG_EINVAL, "key_password: needs cert_file");
    return POSTBAG_OK;
}

/* Paho reads these variables itself and would open an HTTP tunnel; an empty
   one makes it connect to nowhere, and 1.3.12 does not look at no_proxy. */
static int check_proxy(unsigned is_tls, struct postbag_fault *why)
{
    const char *name = is_tls ? "https_proxy" : "http_proxy";
    /* who changes the environment beside threads breaks Paho too */
    if (getenv(name) == NULL) /* NOLINT(concurrency-mt-unsafe) */
        return POSTBAG_OK;
    return postbag__paho_refuse(why, POSTBAG_EINVAL,
        "uri: the environment has %s, and Paho would send MQTT there", name);
}

static int check(const struct postbag_paho_config *c, unsigned *is_tls,
    struct postbag_fault *why)
{
    int err = check_uri(c->uri, is_tls, why);
    if (err == POSTBAG_OK)
        err = check_tls(c, *is_tls, why);
    if (err == POSTBAG_OK)
        err = check_proxy(*is_tls, why);
    if (err != POSTBAG_OK)
        return err;
    if (c->client_id == NULL)
        return postbag__paho_refuse(
            why, POSTBAG_EINVAL, "client_id: is required");
    /* MQTT 3.1.1, 3.1.2.9 */
    if (c->mqtt_version == 4 && c->password != NULL && c->username == NULL)
        return postbag__paho_refuse(why, POSTBAG_EINVAL,
            "password: needs username when mqtt_version is 4");
    return POSTBAG_OK;
}

int postbag__paho_config_take(struct postbag_paho_config *out, unsigned *is_tls,
    const struct postbag_paho_config *in, struct postbag_fault *why)
{
    struct postbag_paho_config known = {0};
    *out = (struct postbag_paho_config){0};
    int err = take_struct(&known, in, why);
    if (err == POSTBAG_OK)
        err = take_values(out, &known, why);
    if (err == POSTBAG_OK)
        err = check(out, is_tls, why);
    if (err != POSTBAG_OK)
        postbag__paho_config_free(out);
    return err;
}

#define FREE_U32(name) (void)c->name
#define FREE_STR(name) free((void *)(uintptr_t)c->name)
#define FREE(kind, name, def, min, max, unit, help) FREE_##kind(name);

static void wipe(const char *secret)
{
    if (secret != NULL)
        explicit_bzero((void *)(uintptr_t)secret, strlen(secret));
}

void postbag__paho_config_free(struct postbag_paho_config *c)
{
    wipe(c->password);
    wipe(c->key_password);
    POSTBAG_PAHO_OPTION_MAP(FREE)
    *c = (struct postbag_paho_config){0};
}
