/* SPDX-License-Identifier: MIT */
/*
 * A resolver that does what the test wants.  The program that is linked with
 * it has this getaddrinfo in place of libc's, for itself and for Paho: names
 * below "test" are answered here, all else by libc.
 */
#ifndef POSTBAG_TEST_FAKE_RESOLVER_H
#define POSTBAG_TEST_FAKE_RESOLVER_H

/* From here on: answer at once, with these addresses (ended by NULL). */
void resolver_answer_with(const char *const addresses[]);
/* Or with this error of getaddrinfo. */
void resolver_fail_with(int error);
/* Look-ups that begin now do not return before resolver_release. */
void resolver_hang(void);
void resolver_release(void);

/* Look-ups since the last resolver_answer_with or _fail_with. */
unsigned resolver_calls(void);
/* Look-ups that have not returned. */
unsigned resolver_inside(void);
/* Wait up to 10 s until there were so many calls; 1 if so. */
int resolver_wait_calls(unsigned count);
/* Did every look-up run with SIGTERM blocked? */
int resolver_was_shielded(void);

#endif
