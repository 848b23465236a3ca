/* SPDX-License-Identifier: MIT */
/*
 * What a TLS attempt needs, read from the files that the options name, anew
 * for each attempt: so they can be replaced, or appear late, without a
 * restart.  A file that cannot be used ends the attempt before anything is
 * sent, with a text that names option and file.
 *
 * Runs on the engine's thread; leaves OpenSSL's error queue as it was.
 */
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tls.h"

static int no_memory(struct postbag_fault *why)
{
    return postbag__paho_refuse(why, POSTBAG_ENOMEM, "out of memory");
}

int64_t postbag__paho_tls_end_of(const X509 *certificate)
{
    struct tm tm = {0};
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &tm) != 1)
        return 0;
    return (int64_t)timegm(&tm);
}

/* ---- what a PEM file is opened with -------------------------------------- */

struct key_question {
    const char *password; /* NULL: there is none */
    unsigned is_asked;
};

/* Without a callback OpenSSL would ask on the terminal. */
static int on_key_password(char *out, int size, int is_writing, void *ctx)
{
    struct key_question *q = ctx;
    (void)is_writing;
    q->is_asked = 1;
    size_t len = q->password != NULL ? strlen(q->password) : 0;
    if (len == 0 || len > (size_t)size)
        return -1;
    memcpy(out, q->password, len);
    return (int)len;
}

/* ---- whom we trust ------------------------------------------------------- */

/* How many were added, or -1. */
static int add_authorities(X509_STORE *store, const STACK_OF(X509_INFO) * found)
{
    int added = 0;
    for (int i = 0; i < sk_X509_INFO_num(found); i++) {
        X509 *certificate = sk_X509_INFO_value(found, i)->x509;
        if (certificate == NULL)
            continue;
        if (X509_STORE_add_cert(store, certificate) != 1)
            return -1;
        added++;
    }
    return added;
}

static int parse_authorities(
    struct tls *s, BIO *bio, const char *path, struct postbag_fault *why)
{
    struct key_question nothing = {.password = NULL};
    STACK_OF(X509_INFO) *found =
        PEM_X509_INFO_read_bio(bio, NULL, on_key_password, &nothing);
    int added = add_authorities(s->store, found);
    sk_X509_INFO_pop_free(found, X509_INFO_free);
    if (added < 0)
        return no_memory(why);
    if (added > 0)
        return POSTBAG_OK;
    return postbag__paho_refuse(why, POSTBAG_ELINK,
        "ca_file: %s: holds no certificates in PEM form", path);
}

static int load_ca_file(
    struct tls *s, const char *path, struct postbag_fault *why)
{
    struct bytes file;
    if (path == NULL)
        return POSTBAG_OK;
    int err = postbag__paho_file_read(&file, "ca_file", path, why);
    if (err != POSTBAG_OK)
        return err;
    BIO *bio = BIO_new_mem_buf(file.data, (int)file.len);
    err = bio != NULL ? parse_authorities(s, bio, path, why) : no_memory(why);
    BIO_free(bio);
    postbag__paho_bytes_free(&file);
    return err;
}

/* OpenSSL reads from it when it needs one. */
static int load_ca_path(
    struct tls *s, const char *path, struct postbag_fault *why)
{
    struct stat place;
    if (path == NULL)
        return POSTBAG_OK;
    if (stat(path, &place) != 0)
        return postbag__paho_refuse_file(why, "ca_path", path);
    if (!S_ISDIR(place.st_mode))
        return postbag__paho_refuse(
            why, POSTBAG_ELINK, "ca_path: %s: is not a folder", path);
    if (access(path, R_OK | X_OK) != 0)
        return postbag__paho_refuse_file(why, "ca_path", path);
    return X509_STORE_load_path(s->store, path) == 1 ? POSTBAG_OK
                                                     : no_memory(why);
}

static int load_store(struct tls *s, const struct postbag_paho_config *c,
    struct postbag_fault *why)
{
    s->store = X509_STORE_new();
    if (s->store == NULL)
        return no_memory(why);
    if (c->psk_identity != NULL)
        return POSTBAG_OK;
    if (c->ca_file == NULL && c->ca_path == NULL)
        return X509_STORE_set_default_paths(s->store) == 1 ? POSTBAG_OK
                                                           : no_memory(why);
    int err = load_ca_file(s, c->ca_file, why);
    if (err == POSTBAG_OK)
        err = load_ca_path(s, c->ca_path, why);
    return err;
}

/* ---- who we are ---------------------------------------------------------- */

/* The first certificate is ours, the others lead to its CA. */
static int parse_chain(
    struct tls *s, BIO *bio, const char *path, struct postbag_fault *why)
{
    X509 *next = NULL;
    s->certificate = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL);
    if (s->certificate == NULL)
        return postbag__paho_refuse(why, POSTBAG_ELINK,
            "cert_file: %s: begins with no certificate in PEM form", path);
    s->chain = sk_X509_new_null();
    if (s->chain == NULL)
        return no_memory(why);
    while ((next = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        if (sk_X509_push(s->chain, next) == 0) {
            X509_free(next);
            return no_memory(why);
        }
    }
    if (ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE)
        return POSTBAG_OK;
    return postbag__paho_refuse(why, POSTBAG_ELINK,
        "cert_file: %s: a certificate of the chain is damaged", path);
}

static int parse_key(struct tls *s, BIO *bio, const char *option,
    const char *path, const char *password, struct postbag_fault *why)
{
    struct key_question q = {.password = password};
    s->key = PEM_read_bio_PrivateKey(bio, NULL, on_key_password, &q);
    const char *what = NULL;
    if (s->key == NULL && q.is_asked)
        what = password == NULL ? "is encrypted: it needs key_password"
                                : "is not what key_password opens";
    else if (s->key == NULL)
        what = "holds no private key in PEM form";
    else if (X509_check_private_key(s->certificate, s->key) != 1)
        what = "is not the key of the certificate in cert_file";
    if (what == NULL)
        return POSTBAG_OK;
    return postbag__paho_refuse(
        why, POSTBAG_ELINK, "%s: %s: %s", option, path, what);
}

static int load_chain(
    struct tls *s, const char *path, struct postbag_fault *why)
{
    struct bytes file;
    int err = postbag__paho_file_read(&file, "cert_file", path, why);
    if (err != POSTBAG_OK)
        return err;
    BIO *bio = BIO_new_mem_buf(file.data, (int)file.len);
    err = bio != NULL ? parse_chain(s, bio, path, why) : no_memory(why);
    BIO_free(bio);
    postbag__paho_bytes_free(&file);
    if (err == POSTBAG_OK)
        s->own_end_s = postbag__paho_tls_end_of(s->certificate);
    return err;
}

static int load_key(struct tls *s, const struct postbag_paho_config *c,
    struct postbag_fault *why)
{
    const char *option = c->key_file != NULL ? "key_file" : "cert_file";
    const char *path = c->key_file != NULL ? c->key_file : c->cert_file;
    struct bytes file;
    int err = postbag__paho_file_read(&file, option, path, why);
    if (err != POSTBAG_OK)
        return err;
    BIO *bio = BIO_new_mem_buf(file.data, (int)file.len);
    err = bio != NULL ? parse_key(s, bio, option, path, c->key_password, why)
                      : no_memory(why);
    BIO_free(bio);
    postbag__paho_bytes_free(&file);
    return err;
}

static int load_own(struct tls *s, const struct postbag_paho_config *c,
    struct postbag_fault *why)
{
    if (c->cert_file == NULL)
        return POSTBAG_OK;
    int err = load_chain(s, c->cert_file, why);
    return err == POSTBAG_OK ? load_key(s, c, why) : err;
}

/* ---- a key that both sides know ------------------------------------------ */

static unsigned digit(unsigned char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
    return at != NULL ? (unsigned)(at - digits) : 16;
}

static unsigned parse_hex(struct tls *s, const struct bytes *hex)
{
    if (hex->len % 2 != 0 || hex->len / 2 > sizeof(s->psk))
        return 0;
    for (size_t i = 0; i < hex->len; i += 2) {
        unsigned high = digit(hex->data[i]);
        unsigned low = digit(hex->data[i + 1]);
        if (high > 15 || low > 15)
            return 0;
        s->psk[i / 2] = (unsigned char)(high << 4 | low);
    }
    s->psk_len = hex->len / 2;
    return 1;
}

static int load_psk(struct tls *s, const struct postbag_paho_config *c,
    struct postbag_fault *why)
{
    struct bytes hex;
    if (c->psk_identity == NULL)
        return POSTBAG_OK;
    (void)snprintf(
        s->psk_identity, sizeof(s->psk_identity), "%s", c->psk_identity);
    int err = postbag__paho_secret_read(&hex, "psk_file", c->psk_file, why);
    if (err == POSTBAG_OK && !parse_hex(s, &hex))
        err = postbag__paho_refuse(why, POSTBAG_ELINK,
            "psk_file: %s: is not hex of 1 to %d bytes", c->psk_file,
            PSK_BYTES);
    postbag__paho_bytes_free(&hex);
    return err;
}

/* ---- all ----------------------------------------------------------------- */

/* "a,b" becomes 1 a 1 b; config.c has checked it. */
static void load_alpn(struct tls *s, const char *names)
{
    while (names != NULL) {
        size_t len = strcspn(names, ",");
        s->alpn[s->alpn_len++] = (unsigned char)len;
        memcpy(s->alpn + s->alpn_len, names, len);
        s->alpn_len += (unsigned)len;
        names = names[len] == ',' ? names + len + 1 : NULL;
    }
}

/* No certificate names "example.org.", with the dot of the root. */
static void load_name(struct tls *s, const char *name)
{
    unsigned char address[sizeof(struct in6_addr)];
    size_t len = strlen(name);
    int used = (int)(name[len - 1] == '.' ? len - 1 : len);
    (void)snprintf(s->name, sizeof(s->name), "%.*s", used, name);
    s->is_address = inet_pton(AF_INET, s->name, address) == 1 ||
                    inet_pton(AF_INET6, s->name, address) == 1;
}

int postbag__paho_tls_load(struct tls *out, const char *name,
    const struct postbag_paho_config *c, struct postbag_fault *why)
{
    load_name(out, name);
    load_alpn(out, c->alpn);
    (void)ERR_set_mark();
    int err = load_store(out, c, why);
    if (err == POSTBAG_OK)
        err = load_own(out, c, why);
    if (err == POSTBAG_OK)
        err = load_psk(out, c, why);
    (void)ERR_pop_to_mark();
    return err;
}

void postbag__paho_tls_clear(struct tls *s)
{
    X509_STORE_free(s->store);
    X509_free(s->certificate);
    sk_X509_pop_free(s->chain, X509_free);
    EVP_PKEY_free(s->key);
    explicit_bzero(s, sizeof(*s));
}
