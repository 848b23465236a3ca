/* SPDX-License-Identifier: MIT */
/*
 * TLS of one attempt; only the files tls*.c see it.
 *
 *   tls.c        the attempts that are going on
 *   tls_hook.c   the hook into OpenSSL: whose handshake, and what it is given
 *   tls_files.c  what it is given, from the files of the options
 *   tls_words.c  what went wrong, in words
 */
#ifndef POSTBAG_PAHO_TLS_H
#define POSTBAG_PAHO_TLS_H

#include <openssl/ssl.h>

#include "paho_transport.h"

#define ALPN_BYTES 256
#define PSK_IDENTITY_BYTES 129
#define PSK_BYTES 256

/* Owned by a transport and by the SSL objects that were given it; the last one
   frees. */
struct tls {
    unsigned owners;

    /* fixed once loaded */
    char name[HOST_BYTES]; /* that the broker's certificate must have */
    unsigned is_address;   /* the name is one */
    X509_STORE *store;     /* whom we trust; empty with a PSK */
    X509 *certificate;     /* ours; NULL: none */
    STACK_OF(X509) * chain;
    EVP_PKEY *key;
    int64_t own_end_s;
    unsigned char alpn[ALPN_BYTES]; /* as on the wire */
    unsigned alpn_len;
    char psk_identity[PSK_IDENTITY_BYTES]; /* "": no PSK */
    unsigned char psk[PSK_BYTES];
    size_t psk_len;

    /* noticed by the hook; these and owners are guarded by tls.c */
    unsigned is_begun;
    unsigned is_alpn_missed;
    int64_t server_end_s;
    char text[TLS_TEXT_BYTES]; /* the first thing that went wrong, or "" */
};

/* tls.c, for the hook.  wanted: does anybody expect a handshake?  find: who
   expects one in which Paho asks for this name; NULL, or it owns, until leave.
   note: what went wrong. */
unsigned postbag__paho_tls_is_wanted(void);
struct tls *postbag__paho_tls_find(const char *asked);
void postbag__paho_tls_leave(struct tls *s);
void postbag__paho_tls_note_begun(struct tls *s);
void postbag__paho_tls_note_done(
    struct tls *s, int64_t server_end_s, unsigned has_alpn);
void postbag__paho_tls_note(struct tls *s, const char *text);

/* tls_hook.c: once per process; OK or ENOMEM. */
int postbag__paho_tls_hook(void);

/* tls_files.c: ELINK or ENOMEM, and why names option and file.  clear frees
   what load made, whatever it returned. */
int postbag__paho_tls_load(struct tls *out, const char *name,
    const struct postbag_paho_config *c, struct postbag_fault *why);
void postbag__paho_tls_clear(struct tls *s);
/* Seconds since 1970. */
int64_t postbag__paho_tls_end_of(const X509 *certificate);

/* tls_words.c */
/* The chain was not accepted: code is an X509_V_ERR_ of the certificate at
   depth (0: the broker's own). */
void postbag__paho_tls_verify_text(char *out, size_t size, int code, int depth,
    X509 *certificate, const char *name);
/* The broker sent this fatal alert. */
void postbag__paho_tls_alert_text(
    char *out, size_t size, int alert, const struct tls *s);

#endif
