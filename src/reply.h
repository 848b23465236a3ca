/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Answers to commands: a put whose topic and correlation the sender
 * chose.  The sender does not have our credentials, so its topic must be one
 * that the configuration allows.
 */
#ifndef POSTBAG_SRC_REPLY_H
#define POSTBAG_SRC_REPLY_H

#include "inbox_store.h"
#include "writer.h"

/*
 * A command came again: put the reply of the one that is done, under the same
 * id, to the response topic and with the correlation data of this delivery,
 * which may be new ones.  In the transaction open on w's connection, by the
 * one thread of it.  OK also if there is nothing to put: the command is not
 * done, was not answered, or asks for no reply.
 * Returns OK; as postbag_reply: nothing was put.
 */
POSTBAG_CHECK int postbag__reply_again(
    struct postbag_writer *w, const struct inbox_arrival *a);

/*
 * The command of that number is dead: put an empty reply to its response topic
 * that says so in user property `status`.  It is not kept.  In the transaction
 * open on w's connection, by the one thread of it.  OK also if it names no
 * response topic.
 * Returns OK; as postbag_reply: nothing was put.
 */
POSTBAG_CHECK int postbag__reply_dead(
    struct postbag_writer *w, int64_t arrival, const char *status);

#endif
