/* SPDX-License-Identifier: MIT */
/* What the tests of ports share: the port under test, a folder for each test,
 * times, threads and children. */
#ifndef POSTBAG_CONTRACT_SUPPORT_H
#define POSTBAG_CONTRACT_SUPPORT_H

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "postbag/port.h"
#include "postbag/postbag.h"

/* Longest wait for something that must happen. */
#define PATIENCE_MS 20000
/* Wait for something that must not happen. */
#define QUIET_MS 60

/* Set before the tests run. */
extern const struct postbag_port *port;

/* An empty folder, removed after the test. */
struct folder {
    char path[64];
    char file[PATH_MAX]; /* last answer of in_folder */
};

int folder_setup(void **state);
int folder_teardown(void **state);
/* path/name, until the next call */
const char *in_folder(struct folder *f, const char *name);
/* entries, without . and .. */
unsigned count_entries(const struct folder *f);

int64_t now_us(void);
int64_t in_ms(int64_t ms);

void write_file(const char *path, const char *text);
/* Another process writes; back when it has ended. */
void write_file_elsewhere(const char *path, const char *text);
/* Wait for a child; returns its exit status, -signal if that killed it. */
int reap(pid_t child);

/* In a child: stay until killed, and not for ever should the test fail. */
_Noreturn void stay(void);

/* Tests of threads need them in the port. */
void need_threads(void);
struct postbag_thread *start(void (*run)(void *), void *arg);
void join(struct postbag_thread *t);

#define TEST_IN_FOLDER(name) \
    cmocka_unit_test_setup_teardown(name, folder_setup, folder_teardown)

#endif
