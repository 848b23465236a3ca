/* SPDX-License-Identifier: MIT */
/* In place of tls*.c where the build has no TLS: config.c has refused it. */
#include "paho_transport.h"

int postbag__paho_tls_prepare(struct paho *t, struct postbag_fault *why)
{
    (void)t;
    (void)why;
    return POSTBAG_OK;
}

void postbag__paho_tls_begin(struct paho *t)
{
    (void)t;
}

void postbag__paho_tls_options(struct paho *t, MQTTAsync_SSLOptions *out)
{
    (void)t;
    (void)out;
}

void postbag__paho_tls_settled(struct paho *t)
{
    (void)t;
}

void postbag__paho_tls_end(struct paho *t)
{
    (void)t;
}

void postbag__paho_tls_report(const struct paho *t, struct postbag_link *link)
{
    (void)t;
    (void)link;
}

unsigned postbag__paho_tls_why(const struct paho *t, char *out, size_t size)
{
    (void)t;
    (void)out;
    (void)size;
    return 0;
}

unsigned postbag__paho_tls_is_begun(const struct paho *t)
{
    (void)t;
    return 0;
}
