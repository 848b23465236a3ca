/* SPDX-License-Identifier: MIT */
/* The command postbag: what its commands share.  One thread. */
#ifndef POSTBAG_CLI_H
#define POSTBAG_CLI_H

#include "args.h"
#include "postbag/admin.h"

/* A contract with scripts. */
enum exit_code {
    CLI_OK = 0,
    CLI_ERROR = 1,
    CLI_USAGE = 2,
    CLI_NOT_FOUND = 3,
    CLI_LOCKED = 4,
    CLI_REFUSED = 5, /* by the broker */
    CLI_UNSOUND = 6  /* verify or doctor found something wrong */
};

/* One line to stderr that says what is wrong, and the exit code. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
int cli_complain(int exit_code, const char *format, ...);
/* The same for errno. */
int cli_errno(int exit_code, const char *what);
/* The same for a fault of the library. */
int cli_fail(const char *what, const struct postbag_fault *fault);

/* How args->words[0] is to be opened. */
struct postbag_admin_config cli_config(
    const struct args *args, unsigned writable);
/* Is it there? */
int cli_find(const struct args *args);
/* Open it.  On failure *out is NULL and the exit code comes
 * back. */
int cli_open(
    struct postbag_admin **out, const struct args *args, unsigned writable);

struct json;

/* What the application said of a message, and its state: members of the object
 * that is open. */
void cli_json_message(struct json *j, const struct postbag_row *row);

/* What verify finds, in the form that args ask for; as JSON it is a member of
 * the object that is open, or without a name the whole. */
int cli_check(const struct args *args, struct json *j, const char *name);

/* The commands; each returns an exit code. */
int cli_init(const struct args *args);
int cli_put(const struct args *args);
int cli_status(const struct args *args);
int cli_ls(const struct args *args);
int cli_show(const struct args *args);
int cli_dead_ls(const struct args *args);
int cli_dead_requeue(const struct args *args);
int cli_dead_discard(const struct args *args);
int cli_inbox_requeue(const struct args *args);
int cli_inbox_discard(const struct args *args);
int cli_inbox_ls(const struct args *args);
int cli_dest_ls(const struct args *args);
int cli_dest_add(const struct args *args);
int cli_dest_remove(const struct args *args);
int cli_purge(const struct args *args);
int cli_archive(const struct args *args);
int cli_replay(const struct args *args);
int cli_vacuum(const struct args *args);
int cli_verify(const struct args *args);
int cli_doctor(const struct args *args);
int cli_relay(const struct args *args);
int cli_version(const struct args *args);

#endif
