/* SPDX-License-Identifier: MIT */
/*
 * Brokers for tests: mosquitto, and the scripted one (fakebroker.py), each as
 * a child process on a free port of 127.0.0.1 with a folder of its own below
 * TMPDIR, which broker_stop removes.
 *
 * Nothing here returns an error: what goes wrong ends the program with a line
 * on stderr, since a test cannot go on without its broker.  A child dies with
 * the test (parent-death signal).  Use from one thread.
 */
#ifndef POSTBAG_TEST_BROKER_H
#define POSTBAG_TEST_BROKER_H

#include <stddef.h>

struct broker;

struct broker_options {
    /* not 0: speak TLS, with certificates made now: see broker_file */
    unsigned tls;
    /* which of them the broker shows; NULL: "server" */
    const char *certificate;
    /* TLS by a shared key instead, "identity:hex"; NULL: certificates */
    const char *psk;
    /* not 0: TLS 1.2 at most */
    unsigned is_tls12;
    /* not 0: on ::1 too, on the same port */
    unsigned is_dual;
    /* NULL: anybody may connect */
    const char *user;
    const char *password;
    /* more lines of mosquitto.conf; NULL: none */
    const char *config;
};

/* NULL options: plain, open, nothing kept across restarts.
   Sessions and retained messages are kept with
   .config = "persistence true\nautosave_interval 1\n". */
struct broker *broker_start_mosquitto(const struct broker_options *o);
/* Settings as fakebroker.py describes, like "recvmax=5"; ends with NULL.  With
   "tls=server" or another certificate it has those of broker_file. */
struct broker *broker_start_fake(const char *const settings[]);
/* Ends the process and removes its folder; NULL is fine. */
void broker_stop(struct broker *b);

/* kill -9, and start again on the same port with the same configuration. */
void broker_kill(struct broker *b);
void broker_restart(struct broker *b);
/* The process stands still: connections live but nothing answers. */
void broker_pause(struct broker *b);
void broker_resume(struct broker *b);

int broker_port(const struct broker *b);
/* "tcp://127.0.0.1:1883"; with TLS "ssl://localhost:8883". */
const char *broker_uri(const struct broker *b);
/*
 * Path of a file in its folder.  Valid until the next call.  With TLS there are
 *
 *   ca.pem other-ca.pem   and cas/, a folder with ca.pem as OpenSSL finds it
 *   server.pem            of ca for localhost, with server.key; the same with
 *     server-elsewhere    broker.example and *.broker.example instead,
 *     server-address      127.0.0.1 and ::1 instead,
 *     server-expired      valid in 2001,
 *     server-early        valid in 2040
 *   client.pem            of ca, with client.key; the same
 *     client-other        of other-ca,
 *     client-expired      valid in 2001
 *   client-both.pem       certificate and key in one
 *   client-chain.pem      certificate, and half of another one
 *   client-locked.key     the key, opened by "open sesame"
 */
const char *broker_file(struct broker *b, const char *name);
/* Put a copy of the file from in the place of to, at once. */
void broker_replace(struct broker *b, const char *to, const char *from);
/* Make a file, or replace it. */
void broker_write(struct broker *b, const char *name, const char *text);
const char *broker_log(const struct broker *b);

/* The scripted broker does a line of its standard input, and has done it when
   this returns. */
void broker_tell(struct broker *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Lines of the log that hold the text. */
size_t broker_count(struct broker *b, const char *text);
/* Wait up to 10 s until there are so many; 1 if so. */
int broker_wait(struct broker *b, const char *text, size_t count);

/* A free port of 127.0.0.1 on which nobody listens. */
int broker_free_port(void);

#endif
