/* SPDX-License-Identifier: MIT */
/*
 * Where an attempt goes: which of the transport's servers, and which of its
 * addresses.
 *
 * Each attempt on a server takes the next of its addresses, in the order that
 * the resolver gives (RFC 6724), until one has let us in.  That one is taken
 * again the next time: it is noted when the broker answers and struck out when
 * it is taken, so that an address that fails, in whatever way, loses its
 * place by itself.
 *
 * Called with the lock of resolve.c held, but for worked, text and spell, which
 * are for the callbacks of the connection too.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "paho_transport.h"

const struct server *postbag__paho_target_server(struct paho *t, uint32_t n)
{
    t->server = (uint32_t)(n % t->servers.count);
    struct server *s = &t->servers.list[t->server];
    t->host_name = s->host;
    t->target_port = s->port;
    t->target_host[0] = '\0';
    return s;
}

/* Paho drops the interface that a link-local address needs. */
static unsigned is_usable(const struct addrinfo *a)
{
    if (a->ai_family != AF_INET6)
        return a->ai_family == AF_INET;
    const struct sockaddr_in6 *in6 = (const void *)a->ai_addr;
    return in6->sin6_scope_id == 0;
}

static size_t count(const struct addrinfo *list)
{
    size_t usable = 0;
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next)
        usable += is_usable(a);
    return usable;
}

/* The usable address number n, from 0; 0 if there are not so many. */
static unsigned find(
    const struct addrinfo *list, size_t n, char *out, size_t size)
{
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        if (is_usable(a) && n-- == 0)
            return getnameinfo(a->ai_addr, a->ai_addrlen, out, (socklen_t)size,
                       NULL, 0, NI_NUMERICHOST) == 0;
    }
    return 0;
}

static unsigned contains(const struct addrinfo *list, const char *address)
{
    char found[HOST_BYTES];
    for (size_t n = 0; find(list, n, found, sizeof(found)); n++) {
        if (strcmp(found, address) == 0)
            return 1;
    }
    return 0;
}

int postbag__paho_target_pick(struct paho *t, const struct addrinfo *list)
{
    struct server *s = &t->servers.list[t->server];
    size_t usable = count(list);
    if (usable == 0)
        return POSTBAG_ELINK;
    unsigned is_picked = contains(list, s->good);
    if (is_picked)
        postbag__paho_target_set(t, s->good);
    else
        is_picked = find(
            list, s->tries++ % usable, t->target_host, sizeof(t->target_host));
    s->good[0] = '\0';
    return is_picked ? POSTBAG_OK : POSTBAG_ELINK;
}

void postbag__paho_target_set(struct paho *t, const char *host)
{
    (void)snprintf(t->target_host, sizeof(t->target_host), "%s", host);
}

void postbag__paho_target_worked(struct paho *t)
{
    struct server *s = &t->servers.list[t->server];
    (void)snprintf(s->good, sizeof(s->good), "%s", t->target_host);
}

/* Zeros before the four octets count in base 32.  The libc (glibc, musl) reads
   "0x7f.0x00.0x0000.0x01" as 127.0.0.1. */
static void spell_v4(
    const unsigned char octets[4], uint32_t number, char *out, size_t size)
{
    int width[4];
    for (int i = 0; i < 4; i++)
        width[i] = 2 + (int)(number >> (5 * i) & 31);
    (void)snprintf(out, size, "0x%0*x.0x%0*x.0x%0*x.0x%0*x", width[0],
        octets[0], width[1], octets[1], width[2], octets[2], width[3],
        octets[3]);
}

/*
 * What Paho is told it asks for by SNI, so with TLS this is how we know our own
 * handshake (tls.c).  Hence a spelling that nobody uses by chance, with the
 * number of the attempt in it: for IPv6 as an interface, which means nothing
 * outside of link-local addresses, and for IPv4 in zeros.
 */
void postbag__paho_target_spell(const struct paho *t, char *out, size_t size)
{
    unsigned char octets[sizeof(struct in_addr)];
    if (!t->is_tls)
        (void)snprintf(out, size, "%s", t->target_host);
    else if (inet_pton(AF_INET, t->target_host, octets) == 1)
        spell_v4(octets, t->tls_number, out, size);
    else
        (void)snprintf(
            out, size, "%s%%%u", t->target_host, (unsigned)t->tls_number);
}

static void host_and_port(
    const struct paho *t, const char *host, char *out, size_t size)
{
    unsigned is_v6 = strchr(host, ':') != NULL;
    (void)snprintf(out, size, "%s%s%s:%u", is_v6 ? "[" : "", host,
        is_v6 ? "]" : "", t->target_port);
}

void postbag__paho_target_uri(const struct paho *t, char *out, size_t size)
{
    char host[SPELLING_BYTES];
    char where[SPELLING_BYTES + 8];
    postbag__paho_target_spell(t, host, sizeof(host));
    host_and_port(t, host, where, sizeof(where));
    (void)snprintf(out, size, "%s://%s", t->is_tls ? "ssl" : "tcp", where);
}

void postbag__paho_target_text(const struct paho *t, char *out, size_t size)
{
    char where[HOST_BYTES + 8];
    host_and_port(t, t->target_host, where, sizeof(where));
    if (strcmp(t->host_name, t->target_host) == 0)
        (void)snprintf(out, size, "%s", where);
    else
        (void)snprintf(out, size, "%s (%s)", t->host_name, where);
}
