/* SPDX-License-Identifier: MIT */
/* What the tests of TLS share: a rig around a broker with certificates. */
#ifndef POSTBAG_TEST_TLS_RIG_H
#define POSTBAG_TEST_TLS_RIG_H

#include "paho_rig.h"

/* As rig_new, and it trusts ca.pem; *state becomes the rig. */
struct rig *tls_mosquitto(void **state, const struct broker_options *o);
/* The same around a scripted broker; settings end with NULL. */
struct rig *tls_fake(void **state, const char *const settings[]);

/* Path of a file of the broker; good until the test has begun eight more. */
const char *tls_file(const struct rig *rig, const char *name);
/* uri of the rig's broker with this host. */
void tls_host(struct rig *rig, const char *host);

/* It connects, is lost before it was up, and the text holds all of these;
   ended by NULL. */
void tls_refused(struct rig *rig, ...) __attribute__((sentinel));
/* The same, and it can be tried again: up. */
void tls_up_again(struct rig *rig);

#endif
