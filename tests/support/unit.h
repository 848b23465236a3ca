/* SPDX-License-Identifier: MIT */
/* What every unit test includes, in the order that cmocka wants. */
#ifndef POSTBAG_TEST_UNIT_H
#define POSTBAG_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "postbag/postbag.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* A test between the file's own set_up and tear_down. */
#define TEST_IN(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#define assert_ok(call) assert_int_equal(call, POSTBAG_OK)
#define assert_has(text, part) assert_non_null(strstr(text, part))

#endif
