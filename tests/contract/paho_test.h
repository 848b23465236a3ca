/* SPDX-License-Identifier: MIT */
/* For programs whose tests each make a rig of their own. */
#ifndef POSTBAG_TEST_PAHO_TEST_H
#define POSTBAG_TEST_PAHO_TEST_H

#include "paho_rig.h"
#include "unit.h"

#define TEST(name) cmocka_unit_test_teardown(name, rig_tear_down)

#endif
