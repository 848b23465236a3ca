/* SPDX-License-Identifier: MIT */
/* Errors: what each call returns, and the fault that says more. */
#ifndef POSTBAG_ERROR_H
#define POSTBAG_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define POSTBAG_API __attribute__((visibility("default")))
#define POSTBAG_CHECK __attribute__((warn_unused_result))
#else
#define POSTBAG_API
#define POSTBAG_CHECK
#endif

/*
 * Name, value, text.  Values never change.  The hundred tells who acts:
 * -1xx the caller's mistake, -2xx try again later, -3xx storage,
 * -4xx the peer or the wire, -9xx stop and call a person.
 */
#define POSTBAG_ERROR_MAP(X) \
    X(EINVAL, -101, "an argument breaks the contract") \
    X(ENOTXN, -102, "no open transaction on this connection") \
    X(ESTATE, -103, "not allowed in this state") \
    X(EVERSION, -104, "a struct is newer than this library") \
    X(ENOTFOUND, -105, "no such row") \
    X(ETOOBIG, -106, "larger than the limit") \
    X(EBUSY, -201, "held by another writer") \
    X(EAGAIN, -202, "not now, try again") \
    X(EFULL, -203, "a limit of the outbox or inbox is reached") \
    X(EFENCED, -204, "another relay owns this destination") \
    X(EIO, -301, "storage failed") \
    X(ENOSPC, -302, "storage is full") \
    X(ENOMEM, -303, "out of memory") \
    X(ESTORAGE, -304, "this storage cannot hold an outbox") \
    X(ELINK, -401, "the link is down") \
    X(EREFUSED, -402, "refused by the broker") \
    X(EPROTO, -403, "the peer broke the protocol") \
    X(ECORRUPT, -901, "stored data fails its checks") \
    X(ESCHEMA, -902, "the tables are of another version") \
    X(ESQLITE, -903, "this SQLite library cannot be used")

enum postbag_error {
    POSTBAG_OK = 0,
#define POSTBAG_ERROR_ENUM(name, value, text) POSTBAG_##name = value,
    POSTBAG_ERROR_MAP(POSTBAG_ERROR_ENUM)
#undef POSTBAG_ERROR_ENUM
};

/* The text of an error code; never NULL.  Any thread, never blocks. */
POSTBAG_API const char *postbag_error_text(int code);
/* The name, as "EBUSY"; "OK" for 0, "?" for an unknown code. */
POSTBAG_API const char *postbag_error_name(int code);
/* What went wrong, in a form for a log line.  No payload, no credentials. */
struct postbag_fault {
    int code;  /* one of the errors above */
    int cause; /* SQLite's extended code, errno or MQTT reason; 0 = none */
    char text[200];
};

#ifdef __cplusplus
}
#endif
#endif
