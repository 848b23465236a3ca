/* SPDX-License-Identifier: MIT */
/*
 * Why TLS failed, in words that say what to do.  The core keeps the first 120
 * bytes or so, hence what matters stands first.  Names from a certificate are
 * the broker's to choose: what is not printable is shown as '?'.
 *
 * Called by the hook of tls.c, on Paho's threads.
 */
#include <arpa/inet.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

#include "tls.h"

/* 2024-01-01: a wall clock before it was never set. */
#define CLOCK_IS_SET_S INT64_C(1704067200)
#define DATE_BYTES 32
#define NAMES_BYTES 80

static int64_t now_s(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec;
}

static void date(char out[DATE_BYTES], int64_t s)
{
    struct tm tm = {0};
    time_t seconds = (time_t)s;
    if (gmtime_r(&seconds, &tm) == NULL ||
        strftime(out, DATE_BYTES, "%Y-%m-%d %H:%M", &tm) == 0)
        (void)snprintf(out, DATE_BYTES, "?");
}

static void clean(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || (unsigned char)*text > '~')
            *text = '?';
    }
}

/* ---- names in certificates ----------------------------------------------- */

/* The common name, else all of it. */
static void name_text(char *out, size_t size, const X509_NAME *name)
{
    out[0] = '\0';
    if (X509_NAME_get_text_by_NID(name, NID_commonName, out, (int)size) < 0)
        (void)X509_NAME_oneline(name, out, (int)size);
    clean(out);
}

static unsigned general_name(char *out, size_t size, const GENERAL_NAME *name)
{
    const ASN1_OCTET_STRING *value = name->d.ip;
    if (name->type == GEN_DNS)
        return snprintf(out, size, "%.*s", ASN1_STRING_length(name->d.dNSName),
                   (const char *)ASN1_STRING_get0_data(name->d.dNSName)) > 0;
    if (name->type != GEN_IPADD)
        return 0;
    int family = ASN1_STRING_length(value) == 4 ? AF_INET : AF_INET6;
    if (family == AF_INET6 && ASN1_STRING_length(value) != 16)
        return 0;
    return inet_ntop(family, ASN1_STRING_get0_data(value), out,
               (socklen_t)size) != NULL;
}

/* "a, b, 192.0.2.1": whom it is for, or its subject if it does not say. */
static void names_text(char *out, size_t size, X509 *certificate)
{
    char one[64];
    out[0] = '\0';
    GENERAL_NAMES *list =
        X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(list); i++) {
        size_t used = strlen(out);
        if (general_name(one, sizeof(one), sk_GENERAL_NAME_value(list, i)))
            (void)snprintf(
                out + used, size - used, "%s%s", used > 0 ? ", " : "", one);
    }
    GENERAL_NAMES_free(list);
    clean(out);
    if (out[0] == '\0')
        name_text(out, size, X509_get_subject_name(certificate));
}

/* ---- a chain that was not accepted --------------------------------------- */

static void whose(char *out, size_t size, int depth, X509 *certificate)
{
    char name[NAMES_BYTES];
    name_text(name, sizeof(name), X509_get_subject_name(certificate));
    if (depth == 0)
        (void)snprintf(out, size, "the broker's certificate");
    else
        (void)snprintf(out, size, "the certificate of the CA %s", name);
}

static void wrong_name(
    char *out, size_t size, X509 *certificate, const char *name)
{
    char names[NAMES_BYTES];
    names_text(names, sizeof(names), certificate);
    (void)snprintf(out, size,
        "the broker's certificate is for %s, not for %s; see server_name",
        names, name);
}

static void unknown_ca(char *out, size_t size, X509 *certificate)
{
    char issuer[NAMES_BYTES];
    name_text(issuer, sizeof(issuer), X509_get_issuer_name(certificate));
    (void)snprintf(out, size,
        "the broker's certificate is of an unknown CA: %s; see ca_file",
        issuer);
}

static void not_now(char *out, size_t size, unsigned is_over, const char *who,
    const ASN1_TIME *t)
{
    char limit[DATE_BYTES];
    char clock[DATE_BYTES];
    struct tm tm = {0};
    int64_t now = now_s();
    (void)ASN1_TIME_to_tm(t, &tm);
    date(limit, (int64_t)timegm(&tm));
    date(clock, now);
    if (is_over && now >= CLOCK_IS_SET_S)
        (void)snprintf(out, size, "%s expired on %s; our clock says %s (UTC)",
            who, limit, clock);
    else
        (void)snprintf(out, size,
            "%s is valid %s %s: is the clock set? it says %s (UTC)", who,
            is_over ? "until" : "from", limit, clock);
}

void postbag__paho_tls_verify_text(char *out, size_t size, int code, int depth,
    X509 *certificate, const char *name)
{
    char who[NAMES_BYTES + 32];
    whose(who, sizeof(who), depth, certificate);
    switch (code) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        wrong_name(out, size, certificate, name);
        return;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        unknown_ca(out, size, certificate);
        return;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        not_now(out, size, 0, who, X509_get0_notBefore(certificate));
        return;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        not_now(out, size, 1, who, X509_get0_notAfter(certificate));
        return;
    default:
        (void)snprintf(out, size, "%s is not accepted: %s", who,
            X509_verify_cert_error_string(code));
        return;
    }
}

/* ---- alerts -------------------------------------------------------------- */

static unsigned is_about_certificate(int alert)
{
    switch (alert) {
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_CERTIFICATE_REQUIRED:
        return 1;
    default:
        return 0;
    }
}

void postbag__paho_tls_alert_text(
    char *out, size_t size, int alert, const struct tls *s)
{
    char end[DATE_BYTES];
    const char *name = SSL_alert_desc_string_long(alert);
    unsigned is_ours = is_about_certificate(alert);
    if (is_ours && s->certificate == NULL)
        (void)snprintf(
            out, size, "the broker wants a client certificate; see cert_file");
    else if (is_ours && s->own_end_s < now_s()) {
        date(end, s->own_end_s);
        (void)snprintf(out, size,
            "the broker refused our certificate: %s; it expired on %s (UTC)",
            name, end);
    } else if (is_ours)
        (void)snprintf(out, size,
            "the broker refused our certificate: %s; see cert_file", name);
    else if (s->psk_len > 0 &&
             (alert == SSL_AD_BAD_RECORD_MAC || alert == SSL_AD_DECRYPT_ERROR))
        (void)snprintf(out, size,
            "the broker has another key for psk_identity \"%s\"; see psk_file",
            s->psk_identity);
    else if (s->psk_len > 0 && alert == SSL_AD_UNKNOWN_PSK_IDENTITY)
        (void)snprintf(out, size,
            "the broker does not know psk_identity \"%s\"", s->psk_identity);
    else
        (void)snprintf(out, size, "the broker ended the handshake: %s%s", name,
            alert == SSL_AD_HANDSHAKE_FAILURE && s->certificate == NULL &&
                    s->psk_len == 0
                ? "; does it want a client certificate? see cert_file"
                : "");
}
