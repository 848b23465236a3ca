/* SPDX-License-Identifier: MIT */
/*
 * MQTT over Eclipse Paho MQTT C (MQTTAsync).  No Paho type shows here.
 *
 * What Paho does to the process that hosts it
 * - It has SIGPIPE ignored (at a first connection).  We change no signal of
 *   the process; set it back if you like, a write of ours to a dead connection
 *   ends nobody.
 * - It has two threads for all its connections, and one mutex that all of them
 *   share.
 * - Its trace (callback and level) is one for the process.  While a transport
 *   of ours connects we use it, since only there Paho tells the socket of a
 *   connection; afterwards the trace is off.  An application that traces Paho
 *   itself must set its trace again after that, and not in between.
 * - Built with PAHO_HIGH_PERFORMANCE, Paho (1.3.12, and the 1.3.13 series so
 *   far) frees memory twice when a write fails.  Use an ordinary build.
 * - With ssl:// we are told, for the life of the process, of each SSL object
 *   that OpenSSL makes, since Paho hides its own.  We know ours by the spelling
 *   of the address that Paho is given; others are left alone, even those to the
 *   same broker, but for an info callback on objects that are made while one of
 *   ours connects, which replaces the one of their SSL_CTX and calls it.  Paho
 *   must use the same copy of OpenSSL as this library: with another one no
 *   broker is trusted.
 *
 * A connection takes two descriptors: Paho's socket and a duplicate of it.
 *
 * Host names are looked up by us, for each attempt, on a thread of its own
 * that ends with the look-up: at most one per transport, with 128 KiB of
 * stack.  If the resolver hangs, nothing waits for it but this attempt.
 * getaddrinfo cannot be stopped, so that thread may outlive disconnect and
 * destroy: a program that loads this library by dlopen must not unload it.
 * All addresses of a name are used: each attempt takes the next one, and one
 * that has let us in is kept until it fails.  Link-local IPv6 addresses are
 * left out, because Paho cannot reach them.
 */
#ifndef POSTBAG_PAHO_H
#define POSTBAG_PAHO_H

#include "postbag/postbag.h"
#include "postbag/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(kind, name, default, min, max, unit, help), as in options.h */
#define POSTBAG_PAHO_OPTION_MAP(X) \
    X(STR, uri, "", 1, 4095, "", \
        "broker: tcp://host:1883 or ssl://host:8883; or several, separated " \
        "by commas, all of one kind: the first is preferred; required") \
    X(STR, client_id, "", 1, 255, "", \
        "MQTT client id, one per device and direction; none: the broker " \
        "assigns one (MQTT 5), good for as long as the process lives") \
    X(STR, username, "", 1, 1023, "", "user name") \
    X(STR, password, "", 1, 65535, "", "password") \
    X(STR, password_file, "", 1, 4095, "", \
        "file with the password, read at each connect: one line, whose end " \
        "does not count") \
    X(U32, mqtt_version, 5, 4, 5, "", \
        "5, or 4 for MQTT 3.1.1, where a PUBACK does not prove acceptance") \
    X(U32, keepalive_s, 60, 5, 65535, "s", "keep alive") \
    X(STR, will_topic, "", 1, 65535, "", \
        "last will: what the broker publishes, QoS 1, when we are gone " \
        "without a word; none: no will") \
    X(STR, will_payload, "", 1, 65535, "", "its payload; none: empty") \
    X(U32, will_retain, 0, 0, 1, "", "1: retained") \
    X(U32, will_delay_s, 0, 0, 2147483647, "s", \
        "it waits so long for us to come back; MQTT 5 only") \
    X(STR, server_name, "", 1, 255, "", \
        "name or address that the broker's certificate must have, and that " \
        "we ask for (SNI); none: the host of the uri") \
    X(STR, ca_file, "", 1, 4095, "", \
        "PEM file of the CAs to trust; none: the system's; this and the " \
        "files below are read at each connect") \
    X(STR, ca_path, "", 1, 4095, "", "hashed folder of CAs to trust") \
    X(STR, cert_file, "", 1, 4095, "", "client certificate chain, PEM") \
    X(STR, key_file, "", 1, 4095, "", \
        "its private key, PEM; none: in cert_file too") \
    X(STR, key_password, "", 1, 1023, "", "password of the private key") \
    X(STR, alpn, "", 1, 255, "", \
        "protocols to ask for (ALPN), separated by commas, as in " \
        "x-amzn-mqtt-ca") \
    X(STR, psk_identity, "", 1, 128, "", \
        "TLS by a key that both sides know, without certificates: its name") \
    X(STR, psk_file, "", 1, 4095, "", "file with that key, in hex")

/* What the callback of the configuration may fill.  NULL: as configured.  The
   texts stay yours; they are copied when the callback has returned. */
struct postbag_paho_credentials {
    size_t struct_size; /* set by the caller, who is Postbag */
    const char *username;
    const char *password;
};

struct postbag_paho_config {
    size_t struct_size;
    /* Credentials that change, as tokens that run out.  May be NULL.  Called
       at the beginning of each connect, on the engine's thread, which waits for
       it: nothing is sent meanwhile.  Must not call Postbag.  A negative answer
       (of enum postbag_error) ends the attempt; the next one asks again. */
    int (*credentials)(void *ctx, struct postbag_paho_credentials *out);
    void *credentials_ctx;
    POSTBAG_PAHO_OPTION_MAP(POSTBAG_FIELD)
};

/**
 * Make a transport for one connection at a time.  Nothing connects yet.
 * The server's name is always checked on ssl:// (there is no switch).
 * mqtt:// and mqtts:// mean the same as tcp:// and ssl://.
 * Refuses when the environment variable http_proxy (https_proxy for ssl://)
 * is set, even if empty and whatever no_proxy says, because Paho 1.3.12 would
 * send MQTT there; this library does not change your environment.
 * @param config  copied
 * @param out     yours: hand it to postbag_open, or call ops->destroy
 * @param why     may be NULL; filled on failure
 * @return POSTBAG_OK, EINVAL (names the option), EVERSION, ENOMEM
 * Thread: any.  Blocks: no.
 */
POSTBAG_API POSTBAG_CHECK int postbag_paho_new(struct postbag_transport **out,
    const struct postbag_paho_config *config, struct postbag_fault *why);

#ifdef __cplusplus
}
#endif
#endif
