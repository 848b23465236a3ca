/* SPDX-License-Identifier: MIT */
/* What lives stand on, opened while nothing fails; and what hooks of the port
 * and the transports ask the fuse. */
#ifndef POSTBAG_TORTURE_SCENE_H
#define POSTBAG_TORTURE_SCENE_H

#include "torture.h"

/* Of the port, beside enum sim_call. */
enum { FUSE_THREAD_START = SIM_CALLS };

/* A trial begins and ends. */
void scene_begin(struct torture *t, const struct life *life);
void scene_end(struct torture *t);

/* Who looks on; NULL: there is no file.  Shut before the next act of a life
 * that needs the database for itself. */
struct sqlite3 *scene_eye(struct torture *t);
void scene_shut_eye(struct torture *t);
/* A number by that connection; -1 without a row. */
int64_t scene_get(struct torture *t, const char *sql);

/* As stage_print; then nobody looks on. */
uint64_t scene_print(struct torture *t);

/* For set_up and tear_down. */
void scene_app(struct torture *t);    /* t->app */
void scene_writer(struct torture *t); /* and t->w on it */
void scene_admin(struct torture *t);  /* t->a, writable */
void scene_transports(struct torture *t, int with_inbound);
void scene_engine(struct torture *t); /* t->p, on these */
void scene_close(struct torture *t);  /* all of it */

/* The application's statement, under the fuse: APP_FAILED or POSTBAG_OK. */
int scene_sql(struct torture *t, const char *sql);
/* Steps of the engine for so long, by the virtual clock; the first error. */
int scene_run_ms(struct torture *t, int64_t ms);
void scene_admin_config(
    const struct torture *t, struct postbag_admin_config *out);
void scene_writer_config(
    const struct torture *t, struct postbag_writer_config *out);

#endif
