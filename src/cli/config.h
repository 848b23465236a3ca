/* SPDX-License-Identifier: MIT */
/* The configuration file of the relay. */
#ifndef POSTBAG_CLI_CONFIG_H
#define POSTBAG_CLI_CONFIG_H

#include "postbag/paho.h"

struct config {
    struct postbag_config engine;
    struct postbag_paho_config mqtt;
    char texts[32768]; /* what the pointers above point to */
    size_t used;
};

/* [postbag] and [mqtt] with the keys of options.h.  Unknown keys, bad values
 * and a file that shows a password to others are errors: a line on stderr
 * that names file, line and key, and an exit code. */
int config_read(struct config *out, const char *path);

/* Forget the passwords. */
void config_wipe(struct config *c);

#endif
