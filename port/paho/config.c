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

/* ---- what belongs together ----------------------------------------------- */

/* Names between commas, none of them empty; NULL is fine. */
static unsigned is_alpn(const char *names)
{
    while (names != NULL) {
        size_t len = strcspn(names, ",");
        if (len == 0)
            return 0;
        names = names[len] == ',' ? names + len + 1 : NULL;
    }
    return 1;
}

/* The first option that means nothing without TLS, or NULL. */
static const char *tls_option(const struct postbag_paho_config *c)
{
    const struct {
        const char *name, *value;
    } options[] = {
        {"server_name", c->server_name},
        {"ca_file", c->ca_file},
        {"ca_path", c->ca_path},
        {"cert_file", c->cert_file},
        {"alpn", c->alpn},
        {"psk_identity", c->psk_identity},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (options[i].value != NULL)
            return options[i].name;
    }
    return NULL;
}

static int check_tls(const struct postbag_paho_config *c, unsigned is_tls,
    struct postbag_fault *why)
{
#ifndef POSTBAG_WITH_TLS
    if (is_tls)
        return postbag__paho_refuse(why, POSTBAG_EINVAL,
            "uri: ssl:// needs a build with POSTBAG_WITH_TLS");
#endif
    const char *needs_tls = tls_option(c);
    if (needs_tls != NULL && !is_tls)
        return postbag__paho_refuse(
            why, POSTBAG_EINVAL, "%s: needs a uri with ssl://", needs_tls);
    return is_alpn(c->alpn) ? POSTBAG_OK
                            : postbag__paho_refuse(why, POSTBAG_EINVAL,
                                  "alpn: a name between commas is empty");
}

struct pair {
    const char *name, *value;
    const char *other_name, *other;
};

/* Who is given needs the other; or excludes it. */
static int check_pairs(
    const struct postbag_paho_config *c, struct postbag_fault *why)
{
    const struct pair needs[] = {
        {"key_file", c->key_file, "cert_file", c->cert_file},
        {"key_password", c->key_password, "cert_file", c->cert_file},
        {"psk_identity", c->psk_identity, "psk_file", c->psk_file},
        {"psk_file", c->psk_file, "psk_identity", c->psk_identity},
    };
    const struct pair excludes[] = {
        {"password_file", c->password_file, "password", c->password},
        {"psk_identity", c->psk_identity, "ca_file", c->ca_file},
        {"psk_identity", c->psk_identity, "ca_path", c->ca_path},
        {"psk_identity", c->psk_identity, "cert_file", c->cert_file},
    };
    for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
        const struct pair *p = &needs[i];
        if (p->value != NULL && p->other == NULL)
            return postbag__paho_refuse(
                why, POSTBAG_EINVAL, "%s: needs %s", p->name, p->other_name);
    }
    for (size_t i = 0; i < sizeof(excludes) / sizeof(excludes[0]); i++) {
        const struct pair *p = &excludes[i];
        if (p->value != NULL && p->other != NULL)
            return postbag__paho_refuse(why, POSTBAG_EINVAL,
                "%s: does not go with %s", p->name, p->other_name);
    }
    return POSTBAG_OK;
}

static int check_will(
    const struct postbag_paho_config *c, struct postbag_fault *why)
{
    const char *needs_topic = c->will_payload != NULL ? "will_payload"
                              : c->will_retain != 0   ? "will_retain"
                              : c->will_delay_s != 0  ? "will_delay_s"
                                                      : NULL;
    if (needs_topic != NULL && c->will_topic == NULL)
        return postbag__paho_refuse(
            why, POSTBAG_EINVAL, "%s: needs will_topic", needs_topic);
    if (c->will_topic != NULL && strpbrk(c->will_topic, "+#") != NULL)
        return postbag__paho_refuse(
            why, POSTBAG_EINVAL, "will_topic: is a topic, without + and #");
    if (c->will_delay_s != 0 && c->mqtt_version == 4)
        return postbag__paho_refuse(why, POSTBAG_EINVAL,
            "will_delay_s: needs MQTT 5, and mqtt_version is 4");
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

/* What MQTT has as text, or what we ask for by name. */
static int check_texts(
    const struct postbag_paho_config *c, struct postbag_fault *why)
{
    const struct {
        const char *name, *value;
    } texts[] = {
        {"client_id", c->client_id},
        {"username", c->username},
        {"will_topic", c->will_topic},
        {"server_name", c->server_name},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const char *value = texts[i].value;
        if (value != NULL && !postbag_is_mqtt_text(value, strlen(value)))
            return postbag__paho_refuse(why, POSTBAG_EINVAL,
                "%s: is not UTF-8 without control characters", texts[i].name);
    }
    /* OpenSSL would take any name below it */
    if (c->server_name != NULL && c->server_name[0] == '.')
        return postbag__paho_refuse(
            why, POSTBAG_EINVAL, "server_name: begins with a dot");
    return POSTBAG_OK;
}

static int check(const struct postbag_paho_config *c, struct servers *servers,
    struct postbag_fault *why)
{
    int err = postbag__paho_servers_take(servers, c->uri, why);
    if (err == POSTBAG_OK)
        err = check_tls(c, servers->is_tls, why);
    if (err == POSTBAG_OK)
        err = check_pairs(c, why);
    if (err == POSTBAG_OK)
        err = check_texts(c, why);
    if (err == POSTBAG_OK)
        err = check_will(c, why);
    if (err == POSTBAG_OK)
        err = check_proxy(servers->is_tls, why);
    if (err != POSTBAG_OK)
        return err;
    /* MQTT 3.1.1, 3.1.3.1: only with a clean session */
    if (c->client_id == NULL && c->mqtt_version == 4)
        return postbag__paho_refuse(why, POSTBAG_EINVAL,
            "client_id: is required when mqtt_version is 4");
    /* MQTT 3.1.1, 3.1.2.9 */
    if (c->mqtt_version == 4 && c->password != NULL && c->username == NULL &&
        c->credentials == NULL)
        return postbag__paho_refuse(why, POSTBAG_EINVAL,
            "password: needs username when mqtt_version is 4");
    return POSTBAG_OK;
}

int postbag__paho_config_take(struct postbag_paho_config *out,
    struct servers *servers, const struct postbag_paho_config *in,
    struct postbag_fault *why)
{
    struct postbag_paho_config known = {0};
    *out = (struct postbag_paho_config){0};
    *servers = (struct servers){0};
    int err = take_struct(&known, in, why);
    if (err == POSTBAG_OK)
        err = take_values(out, &known, why);
    out->credentials = known.credentials;
    out->credentials_ctx = known.credentials_ctx;
    if (err == POSTBAG_OK)
        err = check(out, servers, why);
    if (err != POSTBAG_OK) {
        postbag__paho_config_free(out);
        postbag__paho_servers_free(servers);
    }
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
