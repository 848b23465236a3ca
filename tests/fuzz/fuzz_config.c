/* SPDX-License-Identifier: MIT */
/* The relay's file: any bytes.  It is taken, with every value in its range, or
 * one line says why not. */
#include "config.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../src/config.h"
#include "cli.h"
#include "fuzz.h"
#include "options.h"
#include "postbag/linux.h"

/* ---- what cli/main.c has for it ------------------------------------------ */

static unsigned complaints;

int cli_complain(int exit_code, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    MUST(vsnprintf(text, sizeof(text), format, args) > 0);
    va_end(args);
    complaints++;
    return exit_code;
}

int cli_errno(int exit_code, const char *what)
{
    return cli_complain(exit_code, "%s", what);
}

/* ---- the target -------------------------------------------------------- */

static void check_value(const struct config *c, const struct option_row *o)
{
    const char *base = strcmp(o->section, "mqtt") == 0
                           ? (const char *)&c->mqtt
                           : (const char *)&c->engine;

    if (o->is_text) {
        const char *text = *(const char *const *)(base + o->offset);

        MUST(text == NULL ||
             (text >= c->texts && text + strlen(text) < c->texts + c->used));
        MUST(
            text == NULL || (strlen(text) >= o->min && strlen(text) <= o->max));
    } else {
        uint32_t n = *(const uint32_t *)(base + o->offset);

        MUST(n == 0 || (n >= o->min && n <= o->max));
    }
}

/* The engine takes it, or says why not. */
static void check_engine(struct config *c)
{
    struct postbag_config copy = {0};
    struct postbag_fault why = {0};
    int err;

    c->engine.port = postbag_linux_port();
    err = postbag__config_copy(&copy, &c->engine, &why);
    MUST(err == POSTBAG_OK || (err == why.code && why.text[0] != '\0'));
    if (err == POSTBAG_OK)
        postbag__config_free(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct config c;
    static const char *path;
    int code;
    int fd;

    if (path == NULL)
        path = fuzz_path("relay.conf");
    fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    MUST(close(fd) == 0);
    complaints = 0;
    code = config_read(&c, path);
    MUST(complaints == (code != CLI_OK));
    for (int i = 0; code == CLI_OK && i < OPTION_COUNT; i++)
        check_value(&c, &option_rows[i]);
    if (code == CLI_OK)
        check_engine(&c);
    config_wipe(&c);
    return 0;
}
