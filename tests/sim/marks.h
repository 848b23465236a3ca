/* SPDX-License-Identifier: MIT */
/*
 * What can happen in an episode.  Faults have a rate, so many of a thousand
 * times that there is an occasion; news are what the core did of it.  Each is
 * counted, and one that never came up in a whole run fails it: what was not
 * tried was not proved.
 */
#ifndef POSTBAG_SIM_MARKS_H
#define POSTBAG_SIM_MARKS_H

/* X(name, rate, text): occasion is a step of the episode ... */
#define SIM_FAULTS_OF_A_STEP(X) \
    X(KILL, 2, "a process is killed between two calls") \
    X(KILL_IN_CALL, 30, "a process is killed in a call to the disk") \
    X(POWER_CUT, 1, "the power is cut between two calls") \
    X(CUT_IN_CALL, 15, "the power is cut in a call to the disk") \
    X(IO_ERROR, 20, "a call to the disk fails once") \
    X(IO_DOWN, 1, "calls to the disk fail for a while") \
    X(DISK_FULL, 1, "the disk is full for a while") \
    X(FREEZE, 2, "a process is stopped, maybe for longer than its lease") \
    X(RESTART, 1, "a process ends in order and starts again") \
    X(WALL_JUMP, 3, "the wall clock jumps") \
    X(LONG_READ, 2, "another program reads for a while") \
    X(LONG_LOCK, 2, "another program has the write lock for a while") \
    X(HANG_UP, 5, "the broker hangs up") \
    X(BLACK_HOLE, 4, "a connection falls silent, both ways") \
    X(DEAF, 4, "a connection loses what the broker says") \
    X(OUTAGE, 1, "the broker is away for a while") \
    X(SWIZZLE, 1, "all links are cut one by one, and healed by chance") \
    X(SESSION_LOSS, 2, "the broker forgets what it had delivered") \
    X(COMMAND_AGAIN, 20, "the broker delivers a command twice")

/* ... or a call, a packet, a connection. */
#define SIM_FAULTS_OF_A_CALL(X) \
    X(KILL_AT_HOOK, 30, "a process is killed at a named point") \
    X(KILL_AT_PUBLISH, 10, "a process is killed when the broker has it") \
    X(REFUSE_CONNECT, 100, "the broker refuses a connection") \
    X(MUTE_CONNECT, 50, "the broker does not answer a connection") \
    X(NO_SUBACK, 50, "the broker does not answer a subscription") \
    X(REFUSE, 60, "a PUBACK refuses a message that may pass later") \
    X(REFUSE_FOR_GOOD, 20, "a PUBACK refuses a message for good") \
    X(THROTTLE, 30, "a PUBACK says that a quota is exceeded") \
    X(ACK_LOST, 15, "a PUBACK is lost, and the connection with it") \
    X(ACK_LATE, 50, "a PUBACK is late") \
    X(ACKS_REORDERED, 300, "PUBACKs overtake each other") \
    X(SEND_AGAIN_LATER, 20, "the transport has no room") \
    X(SEND_FAILS, 5, "the transport finds the link broken") \
    X(POISON, 5, "a message ends each connection that brings it") \
    X(HANDLER_RETRIES, 200, "a handler asks for another try") \
    X(HANDLER_REJECTS, 200, "a handler rejects a command") \
    X(NESTED, 50, "another process runs while one is in the middle of a step")

#define SIM_FAULTS(X) SIM_FAULTS_OF_A_STEP(X) SIM_FAULTS_OF_A_CALL(X)

#define SIM_NEWS(X) \
    X(COMMIT_HELD, "a transaction committed") \
    X(ROLLED_BACK, "a transaction was rolled back") \
    X(SAVEPOINT_BACK, "a savepoint was rolled back") \
    X(OUTCOME_UNKNOWN, "the outcome of a COMMIT was unknown") \
    X(FOUND, "postbag_find settled the outcome of one") \
    X(PUT_REFUSED, "a put was refused") \
    X(PUT_BY_SQL, "a message was put by plain SQL") \
    X(UNDONE_BY_CUT, "a power cut took back what was committed below FULL") \
    X(PUBLISHED, "a message reached the broker") \
    X(REPEATED, "a message reached the broker again") \
    X(DELIVERED, "a PUBACK was taken note of") \
    X(TAKEN_OVER, "the destination went to another relay") \
    X(HELD, "a message was held") \
    X(BEHIND, "a message waits behind a held one") \
    X(DEAD, "a message was given up") \
    X(REQUEUED, "an operator had dead messages sent again") \
    X(DISCARDED, "an operator gave a message up") \
    X(EXPIRED, "a message was dropped for its age") \
    X(REPLACED, "a newer message replaced one") \
    X(LIMIT_DROPPED, "a full outbox dropped a message") \
    X(ACCEPTED, "a command was stored and acknowledged") \
    X(ACCEPTED_AGAIN, "a command came again after its PUBACK") \
    X(NOT_ACCEPTED, "a command could not be stored: no PUBACK") \
    X(HANDLED, "a command took effect") \
    X(PULLED, "a pulled command took effect") \
    X(COMMAND_DEAD, "a command was given up") \
    X(COMMAND_REQUEUED, "an operator had a dead command handled again") \
    X(REPLIED, "a handler answered") \
    X(PURGED, "settled rows were deleted") \
    X(BUSY, "a call found the database locked") \
    X(QUIET, "all came to rest after healing")

enum sim_mark {
#define SIM_MARK_FAULT(name, rate, text) name,
#define SIM_MARK_NEWS(name, text) name,
    SIM_FAULTS(SIM_MARK_FAULT) FAULTS,
    FIRST_NEWS = FAULTS - 1,
    SIM_NEWS(SIM_MARK_NEWS) MARKS
#undef SIM_MARK_FAULT
#undef SIM_MARK_NEWS
};

extern const char *const sim_mark_names[MARKS];
extern const char *const sim_mark_texts[MARKS];
extern const unsigned sim_fault_rates[FAULTS];

#endif
