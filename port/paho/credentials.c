/* SPDX-License-Identifier: MIT */
/*
 * User name and password of one attempt: as configured, or what password_file
 * holds now, or what the application's callback says now.  Copies of ours from
 * the connect until the CONNECT was handed to Paho (whose own copy is not
 * wiped), since an attempt may begin later, on the resolver's thread.
 *
 * take and the callback run on the engine's thread.
 */
#include <stdlib.h>
#include <string.h>

#include "paho_transport.h"

/* MQTT: a string has 65535 bytes at most. */
#define STRING_MAX 65535u

static int copy(
    char **out, const char *option, const char *text, struct postbag_fault *why)
{
    if (text == NULL)
        return POSTBAG_OK;
    if (strlen(text) > STRING_MAX)
        return postbag__paho_refuse(
            why, POSTBAG_ELINK, "%s: is longer than 65535 bytes", option);
    *out = strdup(text);
    if (*out == NULL)
        return postbag__paho_refuse(why, POSTBAG_ENOMEM, "out of memory");
    return POSTBAG_OK;
}

static int ask(const struct postbag_paho_config *c,
    struct postbag_paho_credentials *said, struct postbag_fault *why)
{
    if (c->credentials == NULL)
        return POSTBAG_OK;
    int err = c->credentials(c->credentials_ctx, said);
    if (err >= 0)
        return POSTBAG_OK;
    return postbag__paho_refuse(why, POSTBAG_ELINK,
        "the application's callback gave no credentials: %s",
        postbag_error_name(err));
}

int postbag__paho_credentials_take(struct paho *t, struct postbag_fault *why)
{
    const struct postbag_paho_config *c = &t->config;
    struct postbag_paho_credentials said = {.struct_size = sizeof(said)};
    struct bytes file = {0};
    int err = ask(c, &said, why);
    const char *username = said.username != NULL ? said.username : c->username;
    const char *password = said.password != NULL ? said.password : c->password;
    if (err == POSTBAG_OK && said.password == NULL &&
        c->password_file != NULL) {
        err = postbag__paho_secret_read(
            &file, "password_file", c->password_file, why);
        password = (const char *)file.data;
    }
    if (err == POSTBAG_OK && username != NULL &&
        !postbag_is_mqtt_text(username, strlen(username)))
        err = postbag__paho_refuse(why, POSTBAG_ELINK,
            "username: is not UTF-8 without control characters");
    if (err == POSTBAG_OK)
        err = copy(&t->username, "username", username, why);
    if (err == POSTBAG_OK)
        err = copy(&t->password, "password", password, why);
    /* MQTT 3.1.1, 3.1.2.9 */
    if (err == POSTBAG_OK && !postbag__paho_is_v5(t) && t->username == NULL &&
        t->password != NULL)
        err = postbag__paho_refuse(why, POSTBAG_ELINK,
            "password: needs username when mqtt_version is 4");
    postbag__paho_bytes_free(&file);
    return err;
}

static void wipe(char **text)
{
    if (*text != NULL)
        explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

void postbag__paho_credentials_wipe(struct paho *t)
{
    wipe(&t->username);
    wipe(&t->password);
}
