/* SPDX-License-Identifier: MIT */
/*
 * MQTT over Eclipse Paho MQTT C (MQTTAsync).  No Paho type shows here.
 *
 * What Paho does to the process that hosts it
 * - It ignores SIGPIPE (with the first connection).  We change no signal.
 * - It has two threads for all its connections, and one mutex, held while a
 *   host name is looked up: a resolver that hangs delays every other call,
 *   disconnect too.
 * - Its trace (callback and level) is one for the process.  While a transport
 *   of ours connects we use it, since only there Paho tells the socket of a
 *   connection; afterwards the trace is off.  An application that traces Paho
 *   itself must set its trace again after that, and not in between.
 * - Built with PAHO_HIGH_PERFORMANCE, Paho (1.3.12, and the 1.3.13 series so
 *   far) frees memory twice when a write fails.  Use an ordinary build.
 *
 * A connection takes two descriptors: Paho's socket and a duplicate of it.
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
    X(STR, uri, "", 1, 1023, "", \
        "broker: tcp://host:1883 or ssl://host:8883; required") \
    X(STR, client_id, "", 1, 255, "", \
        "MQTT client id, one per device and direction; required") \
    X(STR, username, "", 1, 1023, "", "user name") \
    X(STR, password, "", 1, 65535, "", "password") \
    X(U32, mqtt_version, 5, 4, 5, "", \
        "5, or 4 for MQTT 3.1.1, where a PUBACK does not prove acceptance") \
    X(U32, keepalive_s, 60, 5, 65535, "s", "keep alive") \
    X(STR, ca_file, "", 1, 4095, "", \
        "PEM file of the CAs to trust; none: the system's") \
    X(STR, ca_path, "", 1, 4095, "", "hashed folder of CAs to trust") \
    X(STR, cert_file, "", 1, 4095, "", "client certificate chain, PEM") \
    X(STR, key_file, "", 1, 4095, "", "its private key, PEM") \
    X(STR, key_password, "", 1, 1023, "", "password of the private key")

struct postbag_paho_config {
    size_t struct_size;
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
