/* SPDX-License-Identifier: MIT */
/*
 * The hook into OpenSSL by which a handshake of Paho becomes ours.
 *
 * Paho 1.3.12 neither shows its SSL object nor checks a name of our choice, and
 * it hides why a handshake failed.  OpenSSL shows each SSL object while it is
 * made: a function that is registered for the objects' extra data is called
 * within SSL_new.  It sets an info callback on those that are made while a
 * transport of ours connects.  When the handshake starts, the callback finds
 * out whether the object is ours (it is a client's, and the name that it asks
 * for is one that only an attempt of ours has given Paho, see target.c) and
 * gives it everything: name to check, trust, certificate and key, ALPN.
 *
 * Paho itself is given nothing but "use TLS and check the chain": no trust
 * store, not even the system's.  So if the hook does not run, because the
 * process has a second copy of OpenSSL or a future Paho goes other ways, no
 * chain is trusted and the handshake fails before CONNECT and its password are
 * sent.  The same holds for an object that could not be given everything: the
 * trust store is set last.
 *
 * Runs on Paho's threads, or on any that makes an SSL object.
 */
#include <openssl/err.h>
#include <string.h>

#include "tls.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int slot_index = -1; /* of the extra data of SSL objects */

static struct tls *tls_of(const SSL *ssl)
{
    return SSL_get_ex_data(ssl, slot_index);
}

/* ---- whose handshake ----------------------------------------------------- */

static struct tls *find(const SSL *ssl)
{
    const char *asked = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    if (asked == NULL || SSL_is_server(ssl))
        return NULL;
    return postbag__paho_tls_find(asked);
}

/* ---- what went wrong ----------------------------------------------------- */

/* OpenSSL asks about each certificate that it finds wrong.  It is. */
static int on_verify(int is_good, X509_STORE_CTX *ctx)
{
    char text[TLS_TEXT_BYTES];
    const SSL *ssl =
        X509_STORE_CTX_get_ex_data(ctx, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls *s = tls_of(ssl);
    X509 *certificate = X509_STORE_CTX_get_current_cert(ctx);
    if (is_good || s == NULL || certificate == NULL)
        return is_good;
    postbag__paho_tls_verify_text(text, sizeof(text),
        X509_STORE_CTX_get_error(ctx), X509_STORE_CTX_get_error_depth(ctx),
        certificate, s->name);
    postbag__paho_tls_note(s, text);
    return 0;
}

static void alerted(const SSL *ssl, int alert)
{
    char text[TLS_TEXT_BYTES];
    struct tls *s = tls_of(ssl);
    if (s == NULL || alert >> 8 != SSL3_AL_FATAL)
        return;
    postbag__paho_tls_alert_text(text, sizeof(text), alert & 0xff, s);
    postbag__paho_tls_note(s, text);
}

/* ---- what a handshake is given ------------------------------------------- */

static unsigned on_psk(SSL *ssl, const char *hint, char *identity,
    unsigned identity_size, unsigned char *key, unsigned key_size)
{
    const struct tls *s = tls_of(ssl);
    (void)hint;
    if (s == NULL || s->psk_len > key_size ||
        strlen(s->psk_identity) >= identity_size)
        return 0;
    memcpy(identity, s->psk_identity, strlen(s->psk_identity) + 1);
    memcpy(key, s->psk, s->psk_len);
    return (unsigned)s->psk_len;
}

/* SNI is for names only (RFC 6066, 3). */
static unsigned give_name(SSL *ssl, struct tls *s)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    if (s->is_address)
        return X509_VERIFY_PARAM_set1_ip_asc(param, s->name) == 1 &&
               SSL_set_tlsext_host_name(ssl, NULL) == 1;
    return X509_VERIFY_PARAM_set1_host(param, s->name, 0) == 1 &&
           SSL_set_tlsext_host_name(ssl, s->name) == 1;
}

static unsigned give_own(SSL *ssl, const struct tls *s)
{
    return s->certificate == NULL ||
           SSL_use_cert_and_key(ssl, s->certificate, s->key, s->chain, 1) == 1;
}

static unsigned give_alpn(SSL *ssl, const struct tls *s)
{
    return s->alpn_len == 0 ||
           SSL_set_alpn_protos(ssl, s->alpn, s->alpn_len) == 0;
}

/* Only suites in which the key is all: with others a certificate would do.
   With TLS 1.3 not every broker takes such keys. */
static unsigned give_psk(SSL *ssl, const struct tls *s)
{
    if (s->psk_len == 0)
        return 1;
    SSL_set_psk_client_callback(ssl, on_psk);
    return SSL_set_max_proto_version(ssl, TLS1_2_VERSION) == 1 &&
           SSL_set_cipher_list(ssl, "kECDHEPSK:kDHEPSK:kPSK") == 1;
}

static unsigned give(SSL *ssl, struct tls *s)
{
    SSL_set_verify(ssl, SSL_VERIFY_PEER, on_verify);
    return give_name(ssl, s) && give_own(ssl, s) && give_alpn(ssl, s) &&
           give_psk(ssl, s) && SSL_set1_verify_cert_store(ssl, s->store) == 1;
}

static void start(SSL *ssl)
{
    struct tls *s = tls_of(ssl) == NULL ? find(ssl) : NULL;
    if (s == NULL)
        return;
    if (SSL_set_ex_data(ssl, slot_index, s) != 1) {
        postbag__paho_tls_leave(s);
        return;
    }
    if (!give(ssl, s)) {
        const char *why = ERR_reason_error_string(ERR_peek_last_error());
        postbag__paho_tls_note(s, why != NULL ? why : "out of memory");
    }
    postbag__paho_tls_note_begun(s);
}

/*
 * With TLS 1.3 a broker refuses our certificate after our handshake is done, by
 * an alert, and hangs up.  If it was quick, CONNECT cannot be written any more,
 * and Paho gives up without reading the alert.  So the first write after the
 * handshake never fails: if the connection is gone, the next read says so, and
 * why.
 */
/* NOLINTNEXTLINE(readability-function-size): the type is OpenSSL's */
static long on_write(BIO *bio, int what, const char *data, size_t len, int i,
    long l, int result, size_t *written)
{
    (void)data;
    (void)i;
    (void)l;
    if (what != (BIO_CB_WRITE | BIO_CB_RETURN))
        return result;
    BIO_set_callback_ex(bio, NULL);
    if (result > 0 || BIO_should_retry(bio))
        return result;
    *written = len;
    return 1;
}

static void done(const SSL *ssl)
{
    const unsigned char *alpn = NULL;
    unsigned alpn_len = 0;
    struct tls *s = tls_of(ssl);
    if (s == NULL)
        return;
    X509 *server = SSL_get_peer_certificate(ssl);
    int64_t end = server != NULL ? postbag__paho_tls_end_of(server) : 0;
    X509_free(server);
    SSL_get0_alpn_selected(ssl, &alpn, &alpn_len);
    BIO_set_callback_ex(SSL_get_wbio(ssl), on_write);
    postbag__paho_tls_note_done(s, end, alpn_len > 0);
}

/* ---- the hook ------------------------------------------------------------ */

static void on_info(const SSL *ssl, int where, int value)
{
    /* Paho's own, which ours hides: it writes to Paho's trace */
    void (*next)(const SSL *, int, int) =
        SSL_CTX_get_info_callback(SSL_get_SSL_CTX(ssl));
    if (where & SSL_CB_HANDSHAKE_START)
        start((SSL *)(uintptr_t)ssl);
    else if (where & SSL_CB_HANDSHAKE_DONE)
        done(ssl);
    else if ((where & SSL_CB_READ_ALERT) == SSL_CB_READ_ALERT)
        alerted(ssl, value);
    if (next != NULL)
        next(ssl, where, value);
}

static void on_ssl_new(void *ssl, void *value, CRYPTO_EX_DATA *data, int index,
    long number, void *pointer)
{
    (void)value;
    (void)data;
    (void)index;
    (void)number;
    (void)pointer;
    if (postbag__paho_tls_is_wanted())
        SSL_set_info_callback(ssl, on_info);
}

static void on_ssl_free(void *ssl, void *value, CRYPTO_EX_DATA *data, int index,
    long number, void *pointer)
{
    (void)ssl;
    (void)data;
    (void)index;
    (void)number;
    (void)pointer;
    if (value != NULL)
        postbag__paho_tls_leave(value);
}

static void set_hook(void)
{
    slot_index = CRYPTO_get_ex_new_index(
        CRYPTO_EX_INDEX_SSL, 0, NULL, on_ssl_new, NULL, on_ssl_free);
}

int postbag__paho_tls_hook(void)
{
    (void)pthread_once(&once, set_hook);
    return slot_index >= 0 ? POSTBAG_OK : POSTBAG_ENOMEM;
}
