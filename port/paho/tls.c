/* SPDX-License-Identifier: MIT */
/*
 * TLS of the attempts that are going on: who expects a handshake, with what,
 * and what became of it.
 *
 * An attempt loads what it needs (tls_files.c), waits in a list for the
 * handshake that the hook finds for it (tls_hook.c), and leaves the list when
 * it is up or lost.
 *
 * A handshake is known by the name that Paho asks for: it is the address, in a
 * spelling that only this attempt has (target.c).  The spellings come again
 * after a million attempts.
 *
 * The lock is taken last, and nothing is called while it is held.
 */
#include "tls.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t tls_lock = PTHREAD_MUTEX_INITIALIZER;
static struct paho *connecting; /* list by next_tls, guarded by tls_lock */
static uint32_t attempts;       /* guarded by tls_lock */

/* ---- for the hook -------------------------------------------------------- */

unsigned postbag__paho_tls_is_wanted(void)
{
    pthread_mutex_lock(&tls_lock);
    unsigned is_wanted = connecting != NULL;
    pthread_mutex_unlock(&tls_lock);
    return is_wanted;
}

/* Paho asks for "[::1%1", without the other bracket. */
static unsigned is_asked(const struct paho *t, const char *asked)
{
    char own[SPELLING_BYTES];
    postbag__paho_target_spell(t, own, sizeof(own));
    return strcmp(own, asked + (asked[0] == '[')) == 0;
}

struct tls *postbag__paho_tls_find(const char *asked)
{
    struct tls *found = NULL;
    pthread_mutex_lock(&tls_lock);
    for (struct paho *t = connecting; t != NULL; t = t->next_tls) {
        if (is_asked(t, asked))
            found = t->tls;
    }
    if (found != NULL)
        found->owners++;
    pthread_mutex_unlock(&tls_lock);
    return found;
}

void postbag__paho_tls_leave(struct tls *s)
{
    pthread_mutex_lock(&tls_lock);
    unsigned owners = --s->owners;
    pthread_mutex_unlock(&tls_lock);
    if (owners > 0)
        return;
    postbag__paho_tls_clear(s);
    free(s);
}

void postbag__paho_tls_note_begun(struct tls *s)
{
    pthread_mutex_lock(&tls_lock);
    s->is_begun = 1;
    pthread_mutex_unlock(&tls_lock);
}

void postbag__paho_tls_note_done(
    struct tls *s, int64_t server_end_s, unsigned has_alpn)
{
    pthread_mutex_lock(&tls_lock);
    s->server_end_s = server_end_s;
    s->is_alpn_missed = s->alpn_len > 0 && !has_alpn;
    pthread_mutex_unlock(&tls_lock);
}

/* The first one counts: others follow from it. */
void postbag__paho_tls_note(struct tls *s, const char *text)
{
    pthread_mutex_lock(&tls_lock);
    if (s->text[0] == '\0')
        (void)snprintf(s->text, sizeof(s->text), "%s", text);
    pthread_mutex_unlock(&tls_lock);
}

/* ---- for link.c and paho.c ----------------------------------------------- */

int postbag__paho_tls_prepare(struct paho *t, struct postbag_fault *why)
{
    if (!t->is_tls)
        return POSTBAG_OK;
    const char *name = t->config.server_name;
    if (postbag__paho_tls_hook() == POSTBAG_OK)
        t->tls = calloc(1, sizeof(*t->tls));
    if (t->tls == NULL)
        return postbag__paho_refuse(why, POSTBAG_ENOMEM, "out of memory");
    t->tls->owners = 1;
    return postbag__paho_tls_load(
        t->tls, name != NULL ? name : t->host_name, &t->config, why);
}

void postbag__paho_tls_begin(struct paho *t)
{
    if (!t->is_tls)
        return;
    pthread_mutex_lock(&tls_lock);
    t->tls_number = ++attempts;
    t->next_tls = connecting;
    connecting = t;
    pthread_mutex_unlock(&tls_lock);
}

void postbag__paho_tls_settled(struct paho *t)
{
    pthread_mutex_lock(&tls_lock);
    struct paho **at = &connecting;
    while (*at != NULL && *at != t)
        at = &(*at)->next_tls;
    if (*at != NULL)
        *at = t->next_tls;
    pthread_mutex_unlock(&tls_lock);
}

void postbag__paho_tls_end(struct paho *t)
{
    postbag__paho_tls_settled(t);
    if (t->tls != NULL)
        postbag__paho_tls_leave(t->tls);
    t->tls = NULL;
}

void postbag__paho_tls_report(const struct paho *t, struct postbag_link *link)
{
    if (t->tls == NULL)
        return;
    pthread_mutex_lock(&tls_lock);
    link->own_certificate_end_s = t->tls->own_end_s;
    link->server_certificate_end_s = t->tls->server_end_s;
    pthread_mutex_unlock(&tls_lock);
}

unsigned postbag__paho_tls_why(const struct paho *t, char *out, size_t size)
{
    out[0] = '\0';
    if (t->tls == NULL)
        return 0;
    pthread_mutex_lock(&tls_lock);
    (void)snprintf(out, size, "%s%s", t->tls->text,
        !t->tls->is_alpn_missed   ? ""
        : t->tls->text[0] != '\0' ? "; it agreed to no alpn"
                                  : "the broker agreed to no alpn");
    pthread_mutex_unlock(&tls_lock);
    return out[0] != '\0';
}

unsigned postbag__paho_tls_is_begun(const struct paho *t)
{
    if (t->tls == NULL)
        return 0;
    pthread_mutex_lock(&tls_lock);
    unsigned is_begun = t->tls->is_begun;
    pthread_mutex_unlock(&tls_lock);
    return is_begun;
}

/* Of an error that OpenSSL reports during the handshake. */
static const char *hint(const struct paho *t, const char *reason)
{
    static const char *const no_tls[] = {
        "unexpected eof", "wrong version number", "packet length too long"};
    if (!postbag__paho_tls_is_begun(t))
        return "; is there a second copy of OpenSSL, in Paho?";
    for (size_t i = 0; i < sizeof(no_tls) / sizeof(no_tls[0]); i++) {
        if (strncmp(reason, no_tls[i], strlen(no_tls[i])) == 0)
            return "; does this port speak TLS?";
    }
    return "";
}

/* OpenSSL's line is thread:error:code:library:function:reason:file:line:... */
static int on_error(const char *line, size_t len, void *ctx)
{
    struct paho *t = ctx;
    char text[TLS_TEXT_BYTES];
    const char *end = line + len;
    for (int i = 0; i < 5 && line != NULL; i++) {
        line = memchr(line, ':', (size_t)(end - line));
        line = line != NULL ? line + 1 : NULL;
    }
    if (line == NULL || t->tls == NULL)
        return 1;
    const char *colon = memchr(line, ':', (size_t)(end - line));
    (void)snprintf(text, sizeof(text), "%.*s%s",
        (int)((colon != NULL ? colon : end) - line), line, hint(t, line));
    postbag__paho_tls_note(t->tls, text);
    return 1;
}

void postbag__paho_tls_options(struct paho *t, MQTTAsync_SSLOptions *out)
{
    *out = (MQTTAsync_SSLOptions)MQTTAsync_SSLOptions_initializer;
    out->enableServerCertAuth = 1;
    out->disableDefaultTrustStore = 1;
    out->verify = 0; /* the hook has a name checked, perhaps another one */
    out->ssl_error_cb = on_error;
    out->ssl_error_context = t;
}
