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
/* Settings as fakebroker.py describes, like "recvmax=5"; ends with NULL. */
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
/* Path of a file in its folder.  With TLS there are: ca.pem, ca.key, server.pem
   (for localhost), client.pem, client.key, and other-ca.pem, which signed
   nothing.  Valid until the next call. */
const char *broker_file(struct broker *b, const char *name);
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
